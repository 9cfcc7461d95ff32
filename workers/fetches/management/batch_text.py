"""Texts of batches, for people and for machines."""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC

from rich.text import Text

from weir.workers.cli import terminal
from weir.workers.fetches.batches.counts import BatchCounts
from weir.workers.fetches.management.forecast_text import WHEN
from weir.workers.fetches.reports.batches import BatchOutlook, as_data
from weir.workers.on_done.unknown import CALLED_AGAIN

NUMBERS = ("unfinished", "done", "failed", "cancelled")


def as_table(batches: Iterable[BatchCounts]) -> str:
    """Return the batches as a table."""
    table = terminal.table("id", "state", *NUMBERS, "made", "name", numbers=("id", *NUMBERS))
    for column in table.columns:
        column.no_wrap = column.header != "name"
    for batch in batches:
        numbers = (f"{getattr(batch, name):,}" for name in NUMBERS)
        made = batch.created_at.strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(str(batch.id), batch.state, *numbers, made, Text(terminal.printable(batch.name)))
    return terminal.rendered(table)


def as_text(found: BatchOutlook) -> str:
    """Return a batch for a screen."""
    counts = found.counts
    ended = f"{counts.ended_at.astimezone(UTC):{WHEN}}" if counts.ended_at else ""
    lines = {
        "state": counts.state + (": more is to come" if counts.is_open else ""),
        "fetches": f"{counts.total:,}: " + ", ".join(f"{getattr(counts, name):,} {name}" for name in NUMBERS),
        "ended": ended if counts.state == "ended" else "",
        "forecast": " ".join(sentences(found)),
        "calls": terminal.printable(" ".join(called(counts))),
    }
    shown = terminal.fields({name: value for name, value in lines.items() if value})
    return "\n".join([f"batch {terminal.printable(counts.name)}", *shown])


def called(counts: BatchCounts) -> Iterator[str]:
    """Yield the task of on_batch_done, and what became of the call; nothing without a task."""
    if not counts.on_done:
        return
    yield counts.on_done
    if counts.on_done_again_at:
        yield f"in vain: the worker that got the call does not know this task; {CALLED_AGAIN}"
    elif counts.on_done_called_at:
        yield f"at {counts.on_done_called_at.astimezone(UTC):{WHEN}}"
    else:
        yield "at its end" if counts.state != "ended" else "within seconds"


def sentences(found: BatchOutlook) -> Iterator[str]:
    """Yield what is expected of the batch's end; nothing if none of it is queued."""
    if found.ends_in_s is None:
        return
    if not found.is_known:
        site = terminal.printable(found.sites[0].site)
        yield f"When it ends is not known: {site} is paused, does not answer, or is asked what became of an effect."
    else:
        last = terminal.printable(found.sites[0].site)
        yield f"Its last fetch starts in {terminal.span(found.ends_in_s)} at the soonest, at {last}."
    if found.is_partial:
        yield f"Only the newest {found.looked_at:,} queued fetches were looked at."


def details(found: BatchOutlook) -> dict[str, object]:
    """Return a batch for machines, with the forecast."""
    return {
        **as_data(found.counts),
        "ends_in_s": _seconds(found.ends_in_s),
        "looked_at": found.looked_at,
        "sites": [
            {"site": site.site, "fetches": site.fetches, "starts_in_s": _seconds(site.starts_in_s)}
            for site in found.sites
        ],
    }


def _seconds(seconds: float | None) -> float | None:
    """Return None for what is not known: JSON has no infinite numbers."""
    return None if seconds is None or math.isinf(seconds) else round(seconds, 3)
