"""Weir, as a project imports it: `from weir import request_fetch, notify, send_once, throttle`.

The names below are stable, and so are the few others that docs/reference/python-api.md lists, such as
`weir.celery.integrate`. Any version may change Weir's other modules and their contents. The module of a name is
imported when the name is first used. So `import weir` imports next to nothing, and works before Django is set up.

After a change here, run `python -m docs.ext.public_names`. It writes `__init__.pyi`, which type checkers and editors
read.
"""

from importlib import import_module
from pathlib import Path

# Three packages of `weir` have their folders at the top of the repository; this folder has symbolic links to them.
if Path(__file__).with_name("workers").is_file():
    raise ImportError(
        "This checkout of Weir has small files where links belong: git was told to make none in the folder weir. "
        "Run `git config core.symlinks true` and `git checkout -- weir` in it; Windows allows links in developer mode."
    )

from weir.apps_lists import (  # noqa: F401  public, as the names below are
    APPS,
    APPS_API,
    APPS_EFFECTS,
    APPS_FETCHES,
    APPS_MAIL,
    APPS_NOTIFICATIONS,
    APPS_OPS,
    APPS_THROTTLE,
)

# The module of each name. A colon is followed by the name in that module, if that name is shorter than the public one:
# the module's own name says the rest.
_PLACES = {
    # --- Fetches
    "Fetch": "weir.workers.fetches.models",
    "FetchState": "weir.workers.fetches.models",
    "BodyGone": "weir.workers.fetches.models",
    "BodyUnreachable": "weir.workers.fetches.models",
    "request_fetch": "weir.workers.fetches.enqueue",
    "request_fetches": "weir.workers.fetches.enqueue",
    "request_once": "weir.workers.fetches.enqueue.requests_once",
    "request_kind": "weir.workers.fetches.once.kinds",
    "RequestedFetches": "weir.workers.fetches.requested",
    "cancel_fetch": "weir.workers.fetches.cancelling:cancel",
    "retry_failed_fetches": "weir.workers.fetches.retrying:retry_failed",
    "RetriedFetches": "weir.workers.fetches.retrying:Retried",
    "MoreFetchesThanExpected": "weir.workers.fetches.retrying",
    "batch_counts": "weir.workers.fetches.batches.counts",
    "cancel_batch": "weir.workers.fetches.cancelling",
    "retry_batch": "weir.workers.fetches.retrying",
    "BatchCounts": "weir.workers.fetches.batches.counts",
    "CancelledBatch": "weir.workers.fetches.cancelling",
    "UnknownBatch": "weir.workers.fetches.batches.counts",
    # --- Watches
    "Watch": "weir.workers.watches.models",
    "watch": "weir.workers.watches.watching",
    "watch_many": "weir.workers.watches.watching",
    "unwatch": "weir.workers.watches.watching",
    # --- Sites
    "set_rate": "weir.ratelimit.site_settings",
    "DEFAULT": "weir.ratelimit.site_settings",
    "pause_site": "weir.ratelimit.site_settings:pause",
    "resume_site": "weir.ratelimit.site_settings:resume",
    "back_off_site": "weir.ratelimit.site_settings:back_off",
    "rest_site": "weir.ratelimit.site_settings:rest",
    "forecast_site": "weir.workers.fetches.reports.forecast:forecast",
    "SiteForecast": "weir.workers.fetches.reports.forecast:Forecast",
    "InvalidRate": "weir.conf.texts.rates",
    "InvalidSiteName": "weir.ratelimit.site_names",
    "SiteBusy": "weir.ratelimit.site_settings",
    "SitesLocked": "weir.ratelimit.sites",
    "UnknownSite": "weir.ratelimit.sites",
    # --- Throttled code
    "throttle": "weir.ratelimit.throttle",
    "athrottle": "weir.ratelimit.throttle",
    "throttled_task": "weir.workers.throttled.decorator",
    "estimate_wait": "weir.ratelimit.slots:estimate",
    "reserve_slots": "weir.ratelimit.slots:reserve",
    "confirm_slots": "weir.ratelimit.slots:confirm",
    "finish_slots": "weir.ratelimit.slots:finish",
    "release_slots": "weir.ratelimit.slots:release",
    "SlotReservation": "weir.ratelimit.slots:Reservation",
    "slot_time": "weir.ratelimit.clock:now",
    "SlotTooFar": "weir.ratelimit.slots",
    # --- Notifications
    "Notification": "weir.notifications.models",
    "notify": "weir.notifications.inbox",
    "notify_many": "weir.notifications.inbox",
    "mark_read": "weir.notifications.inbox",
    "mark_all_read": "weir.notifications.inbox",
    "mark_unread": "weir.notifications.inbox",
    "unread_count": "weir.notifications.inbox",
    "unread_counts": "weir.notifications.inbox",
    "unread_by_kind": "weir.notifications.inbox",
    "notifications_page": "weir.notifications.inbox:page",
    "forget_notifications": "weir.notifications.maintenance.forgetting:forget_user",
    "notification_kind": "weir.notifications.channels.kinds:register",
    "notification_addresses": "weir.notifications.channels.kinds:address_by",
    "preference": "weir.notifications.channels.preferences",
    "preferences": "weir.notifications.channels.preferences",
    "set_preference": "weir.notifications.channels.preferences",
    "UnknownNotificationKind": "weir.notifications.channels.kinds",
    "reconcile_unread": "weir.notifications.reconcile:reconcile_users",
    "RepairedUnread": "weir.notifications.reconciliation.repairs:Repaired",
    "RedisUnreachable": "weir.redis_link.calls",
    # --- E-mails
    "Email": "weir.workers.mail.models",
    "send_once": "weir.workers.mail.outbox",
    "email_kind": "weir.workers.mail.kinds:register",
    "written_kind": "weir.workers.mail.kinds:register_written",
    "OutboxBackend": "weir.workers.mail.django_mail.backend",
    "outbox_key": "weir.workers.mail.django_mail.keys",
    "EmailContent": "weir.workers.mail.kinds:Content",
    "EmailAttachment": "weir.workers.mail.kinds",
    "resolve_email": "weir.workers.mail.actions.emails:resolve_by_code",
    "EmailAct": "weir.workers.mail.models:Act",
    "pause_emails": "weir.workers.mail.maintenance.operators:pause",
    "resume_emails": "weir.workers.mail.maintenance.operators:resume",
    "suppress_address": "weir.workers.mail.maintenance.operators:suppress",
    "release_address": "weir.workers.mail.maintenance.operators:release",
    "forget_recipient": "weir.workers.mail.maintenance.forgetting",
    "ForgottenRecipient": "weir.workers.mail.maintenance.forgetting:Forgotten",
    "unsubscribe_url": "weir.workers.mail.writing.unsubscribing:url",
    "email_bounced": "weir.workers.mail.signals",
    "BounceReport": "weir.workers.mail.bounces.reports",
    "EmailCannotBeResolved": "weir.workers.mail.resolving:CannotBeResolved",
    "UnknownEmailKind": "weir.workers.mail.kinds:UnknownKind",
    "EmailCannotBeWritten": "weir.workers.mail.addresses:CannotBeWritten",
    # --- Effects
    "Effect": "weir.workers.effects.models",
    "once": "weir.workers.effects.queueing",
    "effect_kind": "weir.workers.effects.kinds:register",
    "EffectAttempt": "weir.workers.effects.performing.attempts",
    "EffectDone": "weir.workers.effects.answers:Done",
    "NotDone": "weir.workers.effects.answers",
    "resolve_effect": "weir.workers.effects.resolving:resolve",
    "EffectAct": "weir.workers.effects.models:Act",
    "UnknownEffectKind": "weir.workers.effects.kinds",
    "forget_effects": "weir.workers.effects.maintenance.forgetting:forget_user",
    "ForgottenEffects": "weir.workers.effects.maintenance.forgetting:Forgotten",
    # --- Rows of any model
    "claim_rows": "weir.workers.claims:claim",
    "each_locked_row": "weir.workers.claims:each_locked",
    # --- Log lines
    "correlation_id": "weir.workers.tracing.correlation:current",
    "under_correlation_id": "weir.workers.tracing.correlation:bound",
    # --- PostgreSQL's history and clock
    "postgresql_went_back": "weir.workers.recovery.signals",
    "postgresql_clock_stepped": "weir.workers.recovery.signals",
}

__all__ = [*_PLACES]  # noqa: PLE0604  the names are strings


def __getattr__(name: str) -> object:
    """Return the object that a public name stands for, and keep it for the next access."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _PLACES[name].partition(":")
    value = getattr(import_module(module), there or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
