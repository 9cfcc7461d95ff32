"""The first page: the three promises, each with its number now and its last day, and what needs a person."""

from typing import Final

from django.http import HttpRequest

from ops import histories
from ops.pages import Page, page
from ops.snapshots import Snapshot
from workers.overview.overview import Overview, overview
from workers.overview.problems import Problem, problems

EVERY_S: Final = 2


def _now() -> tuple[Overview, list[Problem]]:
    seen = overview()
    return seen, list(problems(seen))


_snapshot: Snapshot[tuple[Overview, list[Problem]]] = Snapshot()


@page
def show(request: HttpRequest) -> Page:
    """Show how everything does."""
    now = _snapshot.get(_now)
    span, charts = histories.of_all(request.GET.get("over"))
    shows = {"now": now, "span": span, "spans": histories.SPANS.values(), "charts": charts}
    left_s = min(now.left_s, charts.left_s)
    return Page(template="ops/overview.html", title="Overview", every_s=EVERY_S, good_for_s=left_s, shows=shows)
