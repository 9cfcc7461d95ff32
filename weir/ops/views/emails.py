"""E-mails: how many there are of each state, lists of them, and all about one."""

from contextlib import suppress
from functools import partial

from django.http import Http404, HttpRequest
from django.urls import NoReverseMatch, reverse

from weir.ops import actions
from weir.ops.filters import Choice, Chosen, PageFilters, Text
from weir.ops.pages import OpsPage, done, page
from weir.ops.snapshots import Snapshots
from weir.ops.views import previews
from weir.postgres import planner
from weir.workers.mail import kinds, resolving, suppression
from weir.workers.mail.actions.emails import version_of
from weir.workers.mail.models import Email, RelayHold
from weir.workers.mail.phases import EmailState
from weir.workers.mail.reports import counts, listing
from weir.workers.mail.reports.why import goes_by, why

WITHIN = {"1h": counts.HOUR, "1d": counts.DAY}
FILTERS = PageFilters(
    Choice(
        name="state",
        label="State",
        values=[state.value for state in EmailState],
        default=EmailState.UNKNOWN.value,
        default_if_alone=True,
    ),
    Choice(name="kind", label="Kind", values=kinds.names),
    Text(name="to", label="Recipient begins with"),
    Choice(name="within", label="Ended within", values=list(WITHIN)),
)


def _numbers() -> dict[str, object]:
    found = counts.of_kinds()
    return {
        "states": counts.by_state()._asdict(),
        "kinds": found,
        "has_routes": len({tuple(kind.relays) for kind in found}) > 1,
        "sent": {
            "hour": (sum(kind.sent_hour for kind in found), any(kind.sent_hour_or_more for kind in found)),
            "day": (sum(kind.sent_day for kind in found), any(kind.sent_day_or_more for kind in found)),
        },
        "holds": list(RelayHold.objects.order_by("relay")),
    }


_all_numbers: Snapshots[dict[str, object]] = Snapshots()
_lists: Snapshots[listing.EmailsPage] = Snapshots()
_emails: Snapshots[dict[str, object] | None] = Snapshots()


@page
def show_list(request: HttpRequest) -> OpsPage:
    """Show the numbers of all states, and a page of a list."""
    chosen = FILTERS.read(request.GET)

    def found() -> listing.EmailsPage:
        planner.by_indexes()
        return listing.page(wanted(chosen), chosen.cursor)

    numbers, snapshot = _all_numbers.get(done(request), _numbers), _lists.get((chosen.key, done(request)), found)
    shows = {"numbers": numbers, "chosen": chosen, "list": snapshot, "in_any_state": chosen.query_with_any("state")}
    return OpsPage(
        template="weir/ops/emails.html", title="E-mails", good_for_s=min(numbers.left_s, snapshot.left_s), shows=shows
    )


def wanted(chosen: Chosen) -> listing.EmailFilters:
    """Return the filters that were chosen."""
    of = chosen.values
    return listing.EmailFilters(state=of["state"], kind=of["kind"], to=of["to"], within=WITHIN.get(of["within"]))


@page
def show(request: HttpRequest, email_id: int) -> OpsPage:
    """Show all that is known of one e-mail."""

    def found() -> dict[str, object] | None:
        email = listing.listed(listing.EmailFilters()).filter(pk=email_id).first()
        if email is None:
            return None
        waits = {"blockers": why(email), "goes_by": [relay.name for relay in goes_by(email)]}
        said = list(email.resolutions.order_by("pk"))
        decided = {"resolutions": said, "decided": resolving.decided_by(email, said)}
        listed = {
            "version": version_of(email),
            "suppressed": suppression.entry_of(email.recipient),
            "unsubscribed": suppression.unsubscribed_at(email),
        }
        return {"email": email, **waits, **listed, **decided}

    snapshot = _emails.get((email_id, done(request)), found)
    if snapshot.value is None and not snapshot.failure:
        raise Http404(f"There is no e-mail {email_id}.")
    email = snapshot.value["email"] if snapshot.value else None
    state = email.state if isinstance(email, Email) else ""
    deeds = [what for what in actions.EMAIL if state in resolving.ALLOWED[actions.ACTS[what]]]
    shows = {"id": email_id, "snapshot": snapshot, "admin": _in_admin(email_id), "deeds": deeds}
    return OpsPage(
        template="weir/ops/email.html",
        title=f"E-mail {email_id}",
        good_for_s=snapshot.left_s,
        shows=shows,
        own=partial(previews.part, request, email_id),
    )


def _in_admin(email_id: int) -> str:
    """Return the path of the e-mail in the admin; "" if the project has no admin, or none of e-mails."""
    meta = Email._meta  # noqa: SLF001  documented
    with suppress(NoReverseMatch):
        return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[email_id])
    return ""
