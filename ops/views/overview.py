"""The first page: the three promises, each with its number now and its last day, and what needs a person."""

from django.http import HttpRequest
from django.template.loader import render_to_string

from ops.pages import Page, page
from ops.snapshots import Snapshot
from workers.overview.overview import overview
from workers.overview.problems import problems

EVERY_S = 2


def _now() -> str:
    """Return what changes, rendered for all viewers."""
    seen = overview()
    shows = {"seen": seen, "numbers": seen.numbers, "problems": list(problems(seen))}
    return render_to_string("ops/overview_now.html", shows)


_snapshot: Snapshot[str] = Snapshot(_now)


@page
def show(_request: HttpRequest) -> Page:
    """Show how everything does."""
    now = _snapshot.get()
    left_s = max(0.0, now.life_s - now.age_s)
    return Page(template="ops/overview.html", title="Overview", every_s=EVERY_S, good_for_s=left_s, shows={"now": now})
