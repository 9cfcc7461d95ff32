"""What operators can do from the pages: each with its form, the permission it takes, and what does it.

What is done, and how it is recorded, stands in the room that owns the data, in its `actions`: commands and the API
call these as well.
"""

from collections.abc import Callable, Mapping
from typing import Final

from django.db.models import QuerySet
from django.forms import Form
from django.utils import timezone

from weir.notifications import actions as unread
from weir.notifications import user_keys
from weir.ops import forms
from weir.ops.deeds import Deed, Values
from weir.ops.deeds.effects import EFFECT, EFFECT_KIND
from weir.ops.deeds.webhooks import ENDPOINT, WEBHOOKS
from weir.ops.filters import Chosen
from weir.ops.forms import Redirect, SeenDecision, SeenReason
from weir.workers.audit import acting
from weir.workers.audit.acting import Actor
from weir.workers.fetches.actions import batches, fetches, sites
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports import fetch_filters
from weir.workers.mail import suppression
from weir.workers.mail.actions import addresses, emails, kinds
from weir.workers.mail.addresses import redacted
from weir.workers.mail.models import Act, Email
from weir.workers.watches import actions as watches


def _set(actor: Actor, host: str, values: Values) -> None:
    settings = sites.all_settings(values)
    sites.set_rate(actor, host, values["rate"], why=values["why"], seen=values["seen"], **settings)


def _refuse_late(is_done: bool) -> None:
    if not is_done:
        raise ValueError("It is too late: the fetch is about to start, in flight, or has ended.")


def _retry(actor: Actor, fetch_id: int, values: Values) -> None:
    if not fetches.retry(actor, Fetch.objects.filter(pk=fetch_id), {"id": fetch_id}, why=values["why"]).queued:
        raise ValueError("It cannot be retried: it has not failed, or another one for the same URL waits already.")


def _retry_failed(actor: Actor, chosen: Chosen, values: Values) -> None:
    described = {name: value for name, value in chosen.values.items() if value}
    expected = values["expected"]
    if not fetches.retry(actor, failed_fetches(chosen), described, why=values["why"], expected=expected).queued:
        raise ValueError("None was queued again: none failed, or each URL has an unfinished fetch already.")


def failed_fetches(chosen: Chosen) -> QuerySet[Fetch]:
    """Return the fetches that the filters of the list name, and that failed. Raises what fetch_filters.read raises."""
    texts = {**{name: [text] for name, text in chosen.values.items()}, "state": [FetchState.FAILED.value]}
    return Fetch.objects.filter(fetch_filters.read(texts, timezone.now()).condition())


SITE: Final = {
    "set": Deed(
        title="Change settings",
        explains="It holds immediately, in all processes.",
        action=sites.SET,
        form=forms.SetSite,
        do=_set,
    ),
    "pause": Deed(
        title="Pause",
        explains="Nothing starts there; what is in flight ends.",
        action=sites.PAUSE,
        form=forms.PauseSite,
        do=lambda actor, host, values: sites.pause(
            actor, host, values["duration"], why=values["why"], seen=values["seen"]
        ),
    ),
    "resume": Deed(
        title="Resume",
        explains="A pause and a back-off end.",
        action=sites.RESUME,
        form=SeenReason,
        do=lambda actor, host, values: sites.resume(actor, host, why=values["why"], seen=values["seen"]),
    ),
    "ask-robots": Deed(
        title="Ask for robots.txt again",
        explains="Nothing is fetched there until it has come.",
        action=sites.ASK_ROBOTS,
        do=lambda actor, host, values: sites.ask_robots(actor, sites.origins_of(host), why=values["why"]),
        unchanged="No robots.txt of this site is known: it is read before the next fetch.",
    ),
}
FETCH: Final = {
    "cancel": Deed(
        title="Cancel",
        explains="It is taken back, and its slot goes to the next fetch of its site.",
        action=fetches.CANCEL,
        do=lambda actor, fetch_id, values: _refuse_late(fetches.cancel(actor, fetch_id, why=values["why"])),
    ),
    "retry": Deed(
        title="Retry",
        explains="It begins again, from its own URL, as if it were new.",
        action=fetches.RETRY,
        do=_retry,
    ),
}

MOST_OF_BATCH: Final = 20_000  # fetches that one act changes: some seconds
BATCH: Final = {
    "cancel": Deed(
        title="Cancel",
        explains=f"What has not started is taken back, up to {MOST_OF_BATCH:,} fetches; what is in flight ends.",
        action=batches.CANCEL,
        do=lambda actor, batch_id, values: batches.cancel(actor, batch_id, why=values["why"], limit=MOST_OF_BATCH),
    ),
    "retry": Deed(
        title="Retry what failed",
        explains=f"Up to {MOST_OF_BATCH:,} failed fetches begin again, as if they were new, and the batch ends anew.",
        action=batches.RETRY,
        do=lambda actor, batch_id, values: batches.retry(actor, batch_id, why=values["why"], limit=MOST_OF_BATCH),
    ),
    "close": Deed(
        title="Close",
        explains="Nothing more is to come: it ends when nothing of it is left.",
        action=batches.CLOSE,
        do=lambda actor, batch_id, values: batches.close(actor, batch_id, why=values["why"]),
    ),
}
WATCH: Final = {
    "pause": Deed(
        title="Pause",
        explains="Its page is not asked for until it is resumed.",
        action=watches.PAUSE,
        do=lambda actor, watch_id, values: watches.pause(actor, watch_id, why=values["why"]),
    ),
    "resume": Deed(
        title="Resume",
        explains="Its page is asked for now, and again in each period.",
        action=watches.RESUME,
        do=lambda actor, watch_id, values: watches.resume(actor, watch_id, why=values["why"]),
    ),
    "remove": Deed(
        title="Remove",
        explains="Its page is not asked for any more. Code that watches the URL again makes a new watch.",
        action=watches.REMOVE,
        do=lambda actor, watch_id, values: watches.remove(actor, watch_id, why=values["why"]),
    ),
}
FETCHES: Final = {
    "retry": Deed(
        title="Retry",
        explains="All failed fetches that the filters of the list name begin again, as if they were new.",
        action=fetches.RETRY,
        form=forms.RetryFailed,
        do=_retry_failed,
    ),
}


def _email(act: Act, title: str, explains: str, form: type[Form] = SeenDecision) -> Deed:
    def do(actor: Actor, email_id: int, values: Values) -> None:
        emails.resolve(actor, email_id, act, why=values["why"], to=values.get("to"), seen=values["seen"])

    action = emails.REDIRECT if form is Redirect else emails.RESOLVE[act]
    beside = (emails.RESOLVE[act],) if form is Redirect else ()
    return Deed(title=title, explains=explains, action=action, form=form, do=do, beside=beside)


ACTS: Final = {act.value.replace(" ", "-"): act for act in emails.RESOLVE} | {"redirect": Act.CORRECT}
ANEW: Final = "It is rendered by the templates and data of today. One that has ended does not expire any more."
EMAIL: Final = {
    "arrived": _email(Act.ARRIVED, "It arrived", "An unknown e-mail counts as sent."),
    "resend": _email(
        Act.RESEND,
        "Send it again",
        "Where it is unknown, or was left unsent, the recipient may get it twice. It does not expire any more.",
    ),
    "give-up": _email(Act.GIVE_UP, "Leave it unsent", "It is not sent again, and whether it arrived is not known."),
    "cancel": _email(Act.CANCEL, "Cancel", "One that waits is not sent."),
    "correct": _email(Act.CORRECT, "Render it anew", ANEW),
    "redirect": _email(Act.CORRECT, "Send it to another address", ANEW, Redirect),
}


def recipient_of(email_id: int) -> str:
    """Return whom the e-mail is for. Raises Email.DoesNotExist, and ValueError if the recipient was forgotten."""
    if (email := Email.objects.filter(pk=email_id).only("recipient").first()) is None:
        raise Email.DoesNotExist(f"There is no e-mail {email_id}.")
    if not email.recipient:
        raise ValueError(f"The recipient of e-mail {email_id} was forgotten: there is no address to name.")
    return email.recipient


def _seen_recipient(email_id: int, values: Values) -> str:
    if (recipient := recipient_of(email_id)) != values["address"]:
        raise acting.Changed(f"E-mail {email_id} goes to another address now: look at it again.")
    return recipient


def _suppress(actor: Actor, email_id: int, values: Values) -> None:
    if not addresses.suppress(actor, _seen_recipient(email_id, values), why=values["why"]):
        raise ValueError("The recipient is on the suppression list already.")


def _release(actor: Actor, email_id: int, values: Values) -> None:
    recipient = _seen_recipient(email_id, values)
    if not addresses.release(actor, suppression.address_hash(recipient), why=redacted(values["why"], recipient)):
        raise ValueError("The recipient is not on the suppression list.")


RECIPIENT: Final = {
    "suppress": Deed(
        title="Suppress the recipient",
        explains="Nothing is sent to the address from now on: it is put on the suppression list.",
        action=addresses.SUPPRESS,
        form=forms.ListAddress,
        do=_suppress,
    ),
    "release": Deed(
        title="Release the recipient",
        explains="The address is taken off the suppression list. What was not sent meanwhile stays unsent.",
        action=addresses.RELEASE,
        form=forms.ListAddress,
        do=_release,
    ),
}
KIND: Final = {
    "pause": Deed(
        title="Pause",
        explains="No e-mail of the kind is begun from now on.",
        action=kinds.PAUSE,
        form=SeenDecision,
        do=lambda actor, kind, values: kinds.pause(actor, kind, why=values["why"], seen=values["seen"]),
        # Also if somebody else was faster after the version was compared.
        unchanged="Nothing was changed: the kind is paused already, and the reason that was given then stays.",
    ),
    "resume": Deed(
        title="Resume",
        explains="E-mails of the kind are sent from now on.",
        action=kinds.RESUME,
        form=SeenDecision,
        do=lambda actor, kind, values: kinds.resume(actor, kind, why=values["why"], seen=values["seen"]),
    ),
}
UNREAD: Final = {
    "reconcile": Deed(
        title="Reconcile",
        explains="The user's number is compared with the rows, and repaired.",
        action=unread.RECONCILE,
        form=forms.Reconcile,
        do=lambda actor, _all, values: unread.reconcile_user(actor, user_keys.clean(values["user"]), why=values["why"]),
        unchanged="The number equals the rows: nothing was changed.",
    ),
}
OF: Final[Mapping[str, Mapping[str, Deed]]] = {
    "site": SITE,
    "fetch": FETCH,
    "fetches": FETCHES,
    "batch": BATCH,
    "watch": WATCH,
    "webhooks": WEBHOOKS,
    "endpoint": ENDPOINT,
    "email": EMAIL | RECIPIENT,
    "kind": KIND,
    "effect": EFFECT,
    "effect-kind": EFFECT_KIND,
    "unread": UNREAD,
}
DEEDS: Final = [deed for deeds in OF.values() for deed in deeds.values()]
# By the name in the audit trail: deeds that record the same action have the same title.
TITLES: Final = {deed.action.name: deed.title for deed in DEEDS}
_TAKEN: Final = frozenset(action.permission for deed in DEEDS for action in deed.actions)


def powers(may: Callable[[str], bool]) -> frozenset[str]:
    """Return which of the permissions that deeds take a visitor has."""
    return frozenset(filter(may, _TAKEN))
