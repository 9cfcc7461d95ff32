"""The tables of notifications: Notification is the truth, UnreadCount the flushed number, Preference a user's wish."""

from weir.notifications.models.notifications import MOST_OF_DEDUPE_KEY, Notification, ReadMark
from weir.notifications.models.numbers import (
    Doubt,
    Excess,
    FlushedEpoch,
    ForgottenUser,
    Installation,
    Reconciliation,
    Repair,
    UnreadCount,
)
from weir.notifications.models.preferences import Channel, Preference

__all__ = [
    "MOST_OF_DEDUPE_KEY",
    "Channel",
    "Doubt",
    "Excess",
    "FlushedEpoch",
    "ForgottenUser",
    "Installation",
    "Notification",
    "Preference",
    "ReadMark",
    "Reconciliation",
    "Repair",
    "UnreadCount",
]
