"""A tick of dispatch, with no site due, with one site in a hundred, and with all."""

from pathlib import Path

from benchmarks import broker, database
from benchmarks.figures import Figure
from benchmarks.scale import tables
from benchmarks.scale.explained import call_takes, recorded, statement_takes
from weir.workers.fetches.dispatch import dispatch

FEW = 100  # one site in this many
RESERVED = "UPDATE weir_ratelimit_site SET next_start = clock_timestamp() + interval '1 hour'"
DUE = "UPDATE weir_ratelimit_site SET next_start = clock_timestamp()"


def measure(plans: Path) -> list[Figure]:
    """Return the time of whole ticks, messages included, and of the statement; everything is due at the end."""
    database.run_at_length(RESERVED)
    tables.vacuum()
    with recorded():
        figures = [call_takes("tick_none_due", dispatch)]
    figures.append(statement_takes(plans, "dispatch_none_due", "weir.workers.fetches", "dispatch"))
    first = {"after": 0}
    database.run_at_length(f"{DUE} WHERE id % {FEW} = 0")
    figures.append(statement_takes(plans, "dispatch_few_due", "weir.workers.fetches", "dispatch", first))
    figures.append(call_takes("tick_few_due", dispatch))
    database.run_at_length(DUE)
    tables.vacuum()
    figures.append(statement_takes(plans, "dispatch_all_due_first_sites", "weir.workers.fetches", "dispatch", first))
    sent: list[int] = []
    all_due = call_takes("tick_all_due", lambda: sent.append(dispatch()))
    rate = Figure(name="scale_tick_all_due_rate", value=sent[0] / all_due.value * 1000, unit="slots/s")
    figures += [all_due, Figure(name="scale_tick_all_due_fetches", value=sent[0], unit="fetches"), rate]
    broker.empty()
    return figures
