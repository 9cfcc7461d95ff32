"""A delivery report is believed, or not, and has its effect.

Anybody can send a report, so one is believed only if it names a Message-ID of ours: the random part of it was told to
nobody but the mail servers on the way and the recipient. The recipient, who may forge a report about an e-mail to them,
can do so by refusing it as well. If the report names an address, it must be the e-mail's own: else it is about somebody
to whom the recipient forwards, and says nothing of the address that we write to.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from workers.mail import kinds
from workers.mail.bounces.reports import Report, ReportAction
from workers.mail.models import Email, State

BOUNCING = (State.SENT, State.UNKNOWN)  # what a mail server may have accepted
Effect = Callable[[Email, Report], None]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a report."""

    sentence: str
    believed: bool
    bounced: bool = False


def handle(report: Report, bounce: Effect | None = None) -> Handled:
    """Check a report and give it its effect: `bounce`, where the e-mail certainly was not delivered.

    A report that comes again finds the effect, and changes nothing.
    """
    email = Email.objects.filter(message_id=report.message_id).first() if report.message_id else None
    if email is None:
        return Handled(f"Not believed: {report.message_id or 'it'} is no Message-ID of ours.", believed=False)
    about = f"E-mail {email.pk} to {report.recipient or 'its recipient'}: {report.action}"
    about = " ".join(filter(None, (about, report.status, report.diagnostic and f"({report.diagnostic})")))
    if report.addresses and recipient_of(email).lower() not in report.addresses:
        return Handled(f"Not believed: {about}. It was sent to another address.", believed=False)
    if report.action is not ReportAction.FAILED or email.state not in BOUNCING:
        log.info("delivery_report", email=email.pk, action=report.action.value, status=report.status)
        return Handled(f"{about}. Nothing was changed.", believed=True)
    (bounce or _only_tell)(email, report)
    return Handled(f"{about}.", believed=True, bounced=True)


def recipient_of(email: Email) -> str:
    """Return the address that the e-mail went to; empty if what it was about is gone."""
    return kinds.summaries([email])[email.pk].recipient


def _only_tell(email: Email, report: Report) -> None:
    """Log the bounce. The state `bounced`, the signal and the suppression list belong here."""
    log.warning("email_bounced", email=email.pk, status=report.status, diagnostic=report.diagnostic)
