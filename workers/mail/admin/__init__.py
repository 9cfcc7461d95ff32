"""The operators' pages of e-mails: Django imports this module, which registers them."""

from weir.workers.mail.admin.emails import EmailAdmin
from weir.workers.mail.admin.lists import MailActAdmin, PausedKindAdmin, RelayHoldAdmin, SuppressionAdmin

__all__ = ["EmailAdmin", "MailActAdmin", "PausedKindAdmin", "RelayHoldAdmin", "SuppressionAdmin"]
