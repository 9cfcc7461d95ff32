"""The first page: the three promises, each with its present numbers and its chart, and what needs somebody."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

from weir.ops import histories
from weir.ops.pages import OpsPage, page
from weir.ops.snapshots import OverviewSnapshot
from weir.ops.views.links import ShownProblem, list_url, shown
from weir.ops.views.sites import TO_COME
from weir.ratelimit.models import HeldState
from weir.workers.overview.overview import HEADS, Overview, overview
from weir.workers.overview.problems import problems
from weir.workers.processes.status import ProcessStatus

EVERY_S: Final = 2
MOST_PROCESSES: Final = 24  # how many processes have a row; those with a problem come first
ORDER: Final = ("silent", "stopping", "gone", "alive")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Now:
    """The content of the page, with a row for as many processes as fit on a screen, and the number of the others."""

    overview: Overview
    problems: list[ShownProblem]
    judged: int  # of how many of the newest failed fetches the causes are known
    to_come: str  # the list of the sites with fetches to come
    held: list[tuple[str, int, str]]  # each state in which nothing starts, how many of them are in it, and their list
    processes: list[ProcessStatus]
    others: str  # such as "120 more: 100 fetcher alive, 20 mailer alive"; "" if each has a row


def _now() -> _Now:
    found = overview()
    listed = sorted(found.processes, key=lambda process: ORDER.index(process.state))
    return _Now(
        overview=found,
        problems=[shown(problem) for problem in problems(found)],
        judged=HEADS,
        to_come=list_url("sites", fetches=TO_COME),
        held=[
            (state, getattr(found.numbers, state.replace(" ", "_")), list_url("sites", state=state, fetches=TO_COME))
            for state in HeldState
        ],
        processes=listed[:MOST_PROCESSES],
        others=_others(listed[MOST_PROCESSES:]),
    )


def _others(processes: list[ProcessStatus]) -> str:
    kinds = Counter(f"{process.kind} {process.state}" for process in processes)
    named = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    return f"{len(processes):,} more: {named}" if processes else ""


_snapshot: OverviewSnapshot[_Now] = OverviewSnapshot()


@page
def show(request: HttpRequest) -> OpsPage:
    """Show the state of everything."""
    now = _snapshot.get(_now)
    span, charts = histories.of_all(request.GET.get("over"))
    shows = {"now": now, "span": span, "spans": histories.SPANS.values(), "charts": charts}
    left_s = min(now.left_s, charts.left_s)
    return OpsPage(template="weir/ops/overview.html", title="Overview", every_s=EVERY_S, good_for_s=left_s, shows=shows)
