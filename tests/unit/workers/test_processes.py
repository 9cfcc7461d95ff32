"""What a worker is, by its queues, and the lines that start it."""

from collections.abc import Sequence

from project.processes import procfile
from tests.cases import for_each
from weir.workers.processes import kinds, lines
from weir.workers.schedule import QUEUES


@for_each(
    ("queues", "kind"),
    [
        (["weir.ticks"], "ticks"),
        (["celery"], "worker"),
        (["weir.mail", "weir.ticks"], "ticks+mailer"),
        (["weir.fetch", "slow", "celery", "weir.maintenance"], "maintenance+fetcher+worker"),
    ],
)
def test_a_worker_is_of_a_kind_for_each_queue(queues: Sequence[str], kind: str) -> None:
    """Named in one order, and read again."""
    assert kinds.of_queues(queues) == kind
    assert {*kinds.split(kind)} == {*map(kinds.of_queue, queues)}


def test_each_queue_has_a_process_of_its_own_or_one_has_them_all() -> None:
    """With beat beside them, or within."""
    alone = [*lines.lines("shop", QUEUES)]
    assert [line.name for line in alone] == [
        "weir-ticks", "weir-maintenance", "weir-fetcher", "weir-mailer", "weir-beat",
    ]  # fmt: skip
    [all_of_it] = lines.lines("shop", QUEUES, small=True)
    assert all_of_it.name == "weir"
    as_in_procfile = " worker " + procfile.lines()["weir"].partition(" worker ")[2].partition(" --hostname")[0]
    assert as_in_procfile in all_of_it.command.replace(" --prefetch-multiplier 2", "")
    [few] = lines.lines("shop", ["weir.ticks"], small=True)
    assert [all_of_it.stops_within_s, few.stops_within_s] == [lines.MAILER_STOPS_WITHIN_S, lines.STOPS_WITHIN_S]


@for_each("queue", QUEUES)
def test_a_process_is_started_as_by_the_procfile(queue: str) -> None:
    """Its pool and what it leaves out are tried there; Weir's own project has the prefetch count in its settings."""
    [line] = [line for line in procfile.lines().values() if f" --queues {queue} " in line]
    options = line.partition(f"--queues {queue} ")[2].partition(" --hostname")[0]
    [printed, _] = [*lines.lines("project", [queue])]
    assert options in printed.command.replace(" --prefetch-multiplier 2", "")
