"""Scopes: what a token may do. Each scope is a Django permission, which people can have under the same name."""

from collections.abc import Iterable, Mapping
from typing import Final

from weir.conf.texts.suggestions import no_such_word
from weir.notifications import actions as unread
from weir.workers.effects import names as effects
from weir.workers.fetches.actions import fetches, sites
from weir.workers.mail.actions import emails
from weir.workers.watches import actions as watches
from weir.workers.webhooks import actions as webhooks

SEE_STATUS: Final = "weir_ops.view"
SEE_FETCHES: Final = "weir_fetches.view_fetch"
ADD_FETCHES: Final = "weir_fetches.add_fetch"
SEND_FETCHES: Final = fetches.MAY_SEND
CHANGE_FETCHES: Final = fetches.MAY_CHANGE
SEE_WATCHES: Final = "weir_watches.view_watch"
ADD_WATCHES: Final = "weir_watches.add_watch"
CHANGE_WATCHES: Final = watches.MAY_CHANGE
SEE_WEBHOOKS: Final = "weir_webhooks.view_endpoint"
CHANGE_WEBHOOKS: Final = webhooks.MAY_CHANGE
SEE_SITES: Final = "weir_ratelimit.view_site"
CHANGE_SITES: Final = sites.MAY_CHANGE
TAKE_SLOTS: Final = "weir_ratelimit.add_slot"
ASK_ROBOTS: Final = sites.ASK_ROBOTS.permission
SEE_EMAILS: Final = "weir_mail.view_email"
ADD_EMAILS: Final = "weir_mail.add_email"
RESOLVE_EMAILS: Final = emails.MAY_ACT
REDIRECT_EMAILS: Final = emails.MAY_REDIRECT
SEE_EFFECTS: Final = "weir_effects.view_effect"
RESOLVE_EFFECTS: Final = effects.MAY_ACT
SEE_NOTIFICATIONS: Final = "weir_notifications.view_notification"
ADD_NOTIFICATIONS: Final = "weir_notifications.add_notification"
CHANGE_NOTIFICATIONS: Final = "weir_notifications.change_notification"
FORGET_USERS: Final = unread.FORGET.permission
RECONCILE: Final = unread.RECONCILE.permission

SCOPES: Final[Mapping[str, str]] = {
    SEE_STATUS: "see the overview",
    SEE_FETCHES: "see all fetches and answers",
    ADD_FETCHES: "ask for URLs",
    SEND_FETCHES: "beside `weir_fetches.add_fetch`, or `change_fetch` for retries: POST, PUT, PATCH and DELETE",
    CHANGE_FETCHES: "cancel and retry fetches",
    SEE_WATCHES: "see all watches",
    ADD_WATCHES: "watch URLs",
    CHANGE_WATCHES: "remove watches",
    SEE_WEBHOOKS: "see all endpoints of webhooks",
    CHANGE_WEBHOOKS: "have all events sent to any URL, signed with any key of webhooks; change all endpoints",
    SEE_SITES: "see all sites",
    CHANGE_SITES: "create sites, change their rates, pause and resume them",
    TAKE_SLOTS: "take starts of sites for requests of their own, and report that a site refused one",
    ASK_ROBOTS: "request robots.txt again",
    SEE_EMAILS: "see all e-mails, with their recipients",
    ADD_EMAILS: "send e-mails of any kind, with any context, to any address",
    RESOLVE_EMAILS: "resolve and cancel e-mails, pause and resume kinds",
    REDIRECT_EMAILS: "beside `weir_mail.resolve_email`: send an e-mail to another address, and so read it",
    SEE_EFFECTS: "see all effects, with what they were asked to do, and what they returned",
    RESOLVE_EFFECTS: "resolve and cancel effects, pause and resume kinds",
    SEE_NOTIFICATIONS: "see all users' notifications and unread numbers",
    ADD_NOTIFICATIONS: "notify users",
    FORGET_USERS: "forget users; beside `weir_mail.resolve_email`, what e-mails to an address say; beside "
    "`weir_effects.resolve_effect`, what their effects say",
    CHANGE_NOTIFICATIONS: "mark any user's notifications as read and unread",
    RECONCILE: "compare a user's unread number with the rows",
}


def checked(scopes: Iterable[str]) -> list[str]:
    """Return the scopes, each once, in alphabetical order. Raises ValueError for an unknown scope or an empty list."""
    found = sorted(set(scopes))
    for scope in found:
        if scope not in SCOPES:
            raise ValueError(no_such_word(scope, SCOPES, "scope"))
    if not found:
        raise ValueError(f"A token needs a scope at least: {', '.join(SCOPES)}.")
    return found
