# The public names of Weir. Made by `python -m docs.ext.public_names`: change __init__.py.

from weir.conf.texts.rates import InvalidRate
from weir.notifications.channels.kinds import UnknownNotificationKind
from weir.notifications.channels.kinds import address_by as notification_addresses
from weir.notifications.channels.kinds import register as notification_kind
from weir.notifications.channels.preferences import preference
from weir.notifications.channels.preferences import preferences
from weir.notifications.channels.preferences import set_preference
from weir.notifications.inbox import mark_all_read
from weir.notifications.inbox import mark_read
from weir.notifications.inbox import mark_unread
from weir.notifications.inbox import notify
from weir.notifications.inbox import notify_many
from weir.notifications.inbox import page as notifications_page
from weir.notifications.inbox import unread_by_kind
from weir.notifications.inbox import unread_count
from weir.notifications.inbox import unread_counts
from weir.notifications.maintenance.forgetting import forget_user as forget_notifications
from weir.notifications.models import Notification
from weir.notifications.reconcile import reconcile_users as reconcile_unread
from weir.notifications.reconciliation.repairs import Repaired as RepairedUnread
from weir.ratelimit.clock import now as slot_time
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.site_settings import DEFAULT
from weir.ratelimit.site_settings import SiteBusy
from weir.ratelimit.site_settings import back_off as back_off_site
from weir.ratelimit.site_settings import pause as pause_site
from weir.ratelimit.site_settings import rest as rest_site
from weir.ratelimit.site_settings import resume as resume_site
from weir.ratelimit.site_settings import set_rate
from weir.ratelimit.sites import SitesLocked
from weir.ratelimit.sites import UnknownSite
from weir.ratelimit.slots import Reservation as SlotReservation
from weir.ratelimit.slots import SlotTooFar
from weir.ratelimit.slots import confirm as confirm_slots
from weir.ratelimit.slots import estimate as estimate_wait
from weir.ratelimit.slots import finish as finish_slots
from weir.ratelimit.slots import release as release_slots
from weir.ratelimit.slots import reserve as reserve_slots
from weir.ratelimit.throttle import athrottle
from weir.ratelimit.throttle import throttle
from weir.redis_link.calls import RedisUnreachable
from weir.workers.claims import claim as claim_rows
from weir.workers.claims import each_locked as each_locked_row
from weir.workers.effects.answers import Done as EffectDone
from weir.workers.effects.answers import NotDone
from weir.workers.effects.kinds import UnknownEffectKind
from weir.workers.effects.kinds import register as effect_kind
from weir.workers.effects.maintenance.forgetting import Forgotten as ForgottenEffects
from weir.workers.effects.maintenance.forgetting import forget_user as forget_effects
from weir.workers.effects.models import Act as EffectAct
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.attempts import EffectAttempt
from weir.workers.effects.queueing import once
from weir.workers.effects.resolving import resolve as resolve_effect
from weir.workers.fetches.batches.counts import BatchCounts
from weir.workers.fetches.batches.counts import UnknownBatch
from weir.workers.fetches.batches.counts import batch_counts
from weir.workers.fetches.cancelling import CancelledBatch
from weir.workers.fetches.cancelling import cancel as cancel_fetch
from weir.workers.fetches.cancelling import cancel_batch
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.enqueue.requests_once import request_once
from weir.workers.fetches.models import BodyGone
from weir.workers.fetches.models import BodyUnreachable
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.once.kinds import request_kind
from weir.workers.fetches.reports.forecast import Forecast as SiteForecast
from weir.workers.fetches.reports.forecast import forecast as forecast_site
from weir.workers.fetches.requested import RequestedFetches
from weir.workers.fetches.retrying import MoreFetchesThanExpected
from weir.workers.fetches.retrying import Retried as RetriedFetches
from weir.workers.fetches.retrying import retry_batch
from weir.workers.fetches.retrying import retry_failed as retry_failed_fetches
from weir.workers.mail.actions.emails import resolve_by_code as resolve_email
from weir.workers.mail.addresses import CannotBeWritten as EmailCannotBeWritten
from weir.workers.mail.bounces.reports import BounceReport
from weir.workers.mail.django_mail.backend import OutboxBackend
from weir.workers.mail.django_mail.keys import outbox_key
from weir.workers.mail.kinds import Content as EmailContent
from weir.workers.mail.kinds import EmailAttachment
from weir.workers.mail.kinds import UnknownKind as UnknownEmailKind
from weir.workers.mail.kinds import register as email_kind
from weir.workers.mail.kinds import register_written as written_kind
from weir.workers.mail.maintenance.forgetting import Forgotten as ForgottenRecipient
from weir.workers.mail.maintenance.forgetting import forget_recipient
from weir.workers.mail.maintenance.operators import pause as pause_emails
from weir.workers.mail.maintenance.operators import release as release_address
from weir.workers.mail.maintenance.operators import resume as resume_emails
from weir.workers.mail.maintenance.operators import suppress as suppress_address
from weir.workers.mail.models import Act as EmailAct
from weir.workers.mail.models import Email
from weir.workers.mail.outbox import send_once
from weir.workers.mail.resolving import CannotBeResolved as EmailCannotBeResolved
from weir.workers.mail.signals import email_bounced
from weir.workers.mail.writing.unsubscribing import url as unsubscribe_url
from weir.workers.recovery.signals import postgresql_clock_stepped
from weir.workers.recovery.signals import postgresql_went_back
from weir.workers.throttled.decorator import throttled_task
from weir.workers.tracing.correlation import bound as under_correlation_id
from weir.workers.tracing.correlation import current as correlation_id
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import unwatch
from weir.workers.watches.watching import watch
from weir.workers.watches.watching import watch_many

_PLACES: dict[str, str]
APPS: list[str]
APPS_API: list[str]
APPS_EFFECTS: list[str]
APPS_FETCHES: list[str]
APPS_MAIL: list[str]
APPS_NOTIFICATIONS: list[str]
APPS_OPS: list[str]
APPS_THROTTLE: list[str]

__all__ = [
    "APPS",
    "APPS_API",
    "APPS_EFFECTS",
    "APPS_FETCHES",
    "APPS_MAIL",
    "APPS_NOTIFICATIONS",
    "APPS_OPS",
    "APPS_THROTTLE",
    "BatchCounts",
    "BodyGone",
    "BodyUnreachable",
    "BounceReport",
    "CancelledBatch",
    "DEFAULT",
    "Effect",
    "EffectAct",
    "EffectAttempt",
    "EffectDone",
    "Email",
    "EmailAct",
    "EmailAttachment",
    "EmailCannotBeResolved",
    "EmailCannotBeWritten",
    "EmailContent",
    "Fetch",
    "FetchState",
    "ForgottenEffects",
    "ForgottenRecipient",
    "InvalidRate",
    "InvalidSiteName",
    "MoreFetchesThanExpected",
    "NotDone",
    "Notification",
    "OutboxBackend",
    "RedisUnreachable",
    "RepairedUnread",
    "RequestedFetches",
    "RetriedFetches",
    "SiteBusy",
    "SiteForecast",
    "SitesLocked",
    "SlotReservation",
    "SlotTooFar",
    "UnknownBatch",
    "UnknownEffectKind",
    "UnknownEmailKind",
    "UnknownNotificationKind",
    "UnknownSite",
    "Watch",
    "athrottle",
    "back_off_site",
    "batch_counts",
    "cancel_batch",
    "cancel_fetch",
    "claim_rows",
    "confirm_slots",
    "correlation_id",
    "each_locked_row",
    "effect_kind",
    "email_bounced",
    "email_kind",
    "estimate_wait",
    "finish_slots",
    "forecast_site",
    "forget_effects",
    "forget_notifications",
    "forget_recipient",
    "mark_all_read",
    "mark_read",
    "mark_unread",
    "notification_addresses",
    "notification_kind",
    "notifications_page",
    "notify",
    "notify_many",
    "once",
    "outbox_key",
    "pause_emails",
    "pause_site",
    "postgresql_clock_stepped",
    "postgresql_went_back",
    "preference",
    "preferences",
    "reconcile_unread",
    "release_address",
    "release_slots",
    "request_fetch",
    "request_fetches",
    "request_kind",
    "request_once",
    "reserve_slots",
    "resolve_effect",
    "resolve_email",
    "rest_site",
    "resume_emails",
    "resume_site",
    "retry_batch",
    "retry_failed_fetches",
    "send_once",
    "set_preference",
    "set_rate",
    "slot_time",
    "suppress_address",
    "throttle",
    "throttled_task",
    "under_correlation_id",
    "unread_by_kind",
    "unread_count",
    "unread_counts",
    "unsubscribe_url",
    "unwatch",
    "watch",
    "watch_many",
    "written_kind",
]
