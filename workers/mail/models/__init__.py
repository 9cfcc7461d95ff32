"""The tables of e-mails."""

from weir.workers.mail.models.emails import LOWER_RECIPIENT, Act, Email, EmailQuerySet, Rendering, Resolution
from weir.workers.mail.models.lists import MailAct, PausedKind, RelayHold, Suppression, Unsubscription

__all__ = [
    "LOWER_RECIPIENT",
    "Act",
    "Email",
    "EmailQuerySet",
    "MailAct",
    "PausedKind",
    "RelayHold",
    "Rendering",
    "Resolution",
    "Suppression",
    "Unsubscription",
]
