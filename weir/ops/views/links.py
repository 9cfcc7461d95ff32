"""Links from one page to others: to a list with filters, and from a problem to where a person does something about it.

It has no view; views of several pages use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from weir.ops import actions
from weir.ops.deeds import Deed
from weir.ops.views.sites import TO_COME
from weir.workers.overview.problems import PersonNeeded, Section, Target, TargetKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link. Its words, which may quote a stranger, say where it leads."""

    url: str
    words: str
    deed: Deed | None = None  # what its form does, if it leads to one


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownProblem:
    """A problem, with links to its targets, and its runbook: a link, or where the documentation has it."""

    text: str
    next_step: str
    links: Sequence[Link]
    runbook: Link | str


def list_url(page: str, **query: str) -> str:
    """Return the URL of a list, such as "sites", with these values of its filters."""
    return f"{reverse(f'weir_ops:{page}')}?{urlencode(query)}"


def shown(problem: PersonNeeded) -> ShownProblem:
    """Return what a page shows of the problem."""
    return ShownProblem(
        text=problem.text,
        next_step=problem.next_step,
        links=[_link(target) for target in problem.targets],
        runbook=_runbook(problem.runbook),
    )


def _link(target: Target) -> Link:  # noqa: PLR0911  one for each kind
    # Links to forms name no version, as the Overview shows none: a form is sent with the version that it shows itself.
    value = target.value
    match target.kind:
        case TargetKind.FETCH:
            return Link(url=reverse("weir_ops:fetch", args=[value]), words=f"Why fetch {value} waits")
        case TargetKind.SITE:
            return Link(url=reverse("weir_ops:site", args=[value]), words=f"The site {value}")
        case TargetKind.PAUSED_SITE:
            return _act("site", value, "resume")
        case TargetKind.SITES:
            url = list_url("sites", state=value, fetches=TO_COME)
            return Link(url=url, words=f"The {value} sites with fetches to come")
        case TargetKind.EMAILS:
            words = f"The {value} e-mails of {target.of}" if target.of else f"The {value} e-mails"
            return Link(url=list_url("emails", state=value, kind=target.of), words=words)
        case TargetKind.EFFECTS:
            return Link(url=list_url("effects", state=value), words=f"The {value} effects")
        case TargetKind.ENDPOINT:
            return Link(url=reverse("weir_ops:endpoint", args=[value]), words=f"The endpoint {value}")
        case TargetKind.EMAIL_KIND:
            return _act("kind", value, "pause")
        case TargetKind.PROCESSES:
            return Link(url="#processes", words="The processes")


def _act(of: str, target: str, what: str) -> Link:
    deed = actions.OF[of][what]
    return Link(url=reverse(f"weir_ops:{of}-act", args=[target, what]), words=f"{deed.title} {target}", deed=deed)


def _runbook(section: Section) -> Link | str:
    return Link(url=section.url, words=f"Runbook: {section.heading}") if section.url else section.place
