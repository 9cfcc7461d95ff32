"""Records, for operators, that a relay cannot be used: all processes write one row for each relay."""

from datetime import timedelta

from django.db import DatabaseError
from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.postgres.texts import storable
from weir.workers.mail.models import RelayHold

LONGEST_REASON = 1_000  # characters
LASTS = timedelta(minutes=5)  # mailers try a relay that is needed at least once a minute

log = get_logger(__name__)


def note(relay: str, reason: str) -> None:
    """Record that the relay cannot be used. If there is a row, its `since` stays."""
    try:
        RelayHold.objects.update_or_create(
            relay=relay, defaults={"reason": storable(reason, LONGEST_REASON), "tried_at": Now()}
        )
    except DatabaseError as error:  # the log has the reason, too
        log.warning("relay_hold_not_written", relay=relay, error=str(error))


def expire() -> None:
    """Remove rows that no process has written lately, because the process ended, or nothing was to be sent."""
    try:
        RelayHold.objects.filter(tried_at__lt=Now() - LASTS).delete()
    except DatabaseError as error:
        log.warning("relay_hold_not_cleared", error=str(error))


def clear(relay: str) -> None:
    """Record that the relay can be used again."""
    try:
        RelayHold.objects.filter(relay=relay).delete()
    except DatabaseError as error:
        log.warning("relay_hold_not_cleared", relay=relay, error=str(error))
