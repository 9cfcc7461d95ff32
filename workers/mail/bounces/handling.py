"""Decides whether a delivery report, or an event of a provider's webhook, is believed, and applies it.

Anyone can send a report, so a report is believed only if it names an e-mail of ours in one of three ways: with the
e-mail's Message-ID, whose random part is known only to the mail servers on the way and to the recipient; with the id
that a provider gave the e-mail, which is known only to the same; or with an address that only Weir can make
(`renderings`). A recipient may forge a report about an e-mail to them, but could refuse the e-mail with the same
effect. The Message-ID of a message to several recipients is known to each of them, and one that the project has chosen
may be known to anybody: neither counts. If the report names an address, it must be the address of the e-mail's
recipient. Otherwise the report is about an address to which the recipient forwards, and says nothing about the address
that we write to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from weir.postgres.texts import storable
from weir.workers.mail import addresses, resolving, suppression
from weir.workers.mail.bounces import arrivals, naming
from weir.workers.mail.bounces.reports import BounceReport, ReportAction
from weir.workers.mail.bounces.statuses import is_of_a_dead_address
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.signals import email_bounced

WHO = "delivery report"
LONGEST_WHY = 1_000  # characters that are kept


class TooSoon(Exception):
    """It is not known yet what became of the reported e-mail: the caller handles the report again later."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a report, with a sentence for operators."""

    sentence: str
    believed: bool
    bounced: bool = False


def handle(report: BounceReport, who: str = WHO, *, from_provider: bool = False) -> Handled:
    """Check a report and apply it. `who` is named in the Resolution that it leads to.

    If the report says that a sent or unknown e-mail was not delivered, the e-mail becomes `bounced`, and receivers of
    `signals.email_bounced` are called. The recipient's address is suppressed if the report says that it does not exist,
    or that the recipient complained. All other reports prove that a relay has the e-mail: an unknown one becomes
    `sent`. Only the first complaint about an e-mail counts, even after an operator has released the address. Reports
    lead to the same state in any order. A report that arrives twice, even at the same time, changes nothing the second
    time. A report also changes nothing if its time shows that it is about a transmission from before an operator resent
    the e-mail.

    What the report changes is committed together. If a receiver raises an error, nothing is changed, and the error is
    passed on. Raises TooSoon while the e-mail's mailer or relay may still say that the e-mail was accepted: a nearby
    server's report may be faster than the mailer's commit, and a mailer may have died before it.

    A provider (`from_provider`) has proved who it is. So a Message-ID that several recipients know counts, if the
    provider names the recipient. Also raises TooSoon if no e-mail has a name that the provider gives, and one to that
    recipient is being sent: its name may not be recorded yet.
    """
    candidates = naming.Named([report], from_provider=from_provider).by(report)
    if not candidates:
        if from_provider and arrivals.expected([report]):
            raise TooSoon(f"{report.message_id or report.names} may be the name of an e-mail that is being sent.")
        return Handled(f"Not believed: {_unnamed(report)}", believed=False)
    email = naming.best(candidates, report)
    said = f"E-mail {email.pk}: {report.action}. {_reason(report, email)}"
    if not naming.is_to(email, report):
        return Handled(f"Not believed: it was not sent to that address. {said}", believed=False)
    if report.action is ReportAction.COMPLAINED:
        _complain(email, report)
    if naming.is_of_an_earlier_sending(report, naming.repeated([email]).get(email.pk)):
        return Handled(
            f"Nothing was changed. It is about what was sent before it was sent again. {said}", believed=True
        )
    if report.action is ReportAction.FAILED:
        return _bounced(email, report, said, who)
    arrivals.note(email, report, who, f"It is {report.action}. {_reason(report, email)}")
    return Handled(said, believed=True)


def note_deliveries(reports: Sequence[BounceReport]) -> None:
    """Do what `handle` does for those reports of a provider that say when a sent e-mail was delivered: most of many.

    Takes a few statements for all of them. The others are left to `handle`.
    """
    named = naming.Named(reports, from_provider=True)
    deliveries: dict[int, datetime] = {}
    for report in reports:
        if report.action is ReportAction.DELIVERED and report.arrived_by and (found := named.by(report)):
            email = naming.best(found, report)
            if email.state == EmailState.SENT and naming.is_to(email, report):
                deliveries[email.pk] = max(report.arrived_by, deliveries.get(email.pk, report.arrived_by))
    arrivals.note_deliveries(deliveries, naming.CLOCK_ERROR)


def handled_before(reports: Sequence[BounceReport]) -> list[Handled | None]:
    """Return, for each report of a provider, what `handle` would return if it would change nothing; None if it may.

    A provider repeats a request with very many events until all of them are handled. This takes a few statements for
    all that were handled before, and for those about other programs' e-mails.
    """
    named = naming.Named(reports, from_provider=True)
    if not named.is_complete:
        return [None] * len(reports)
    candidates = [named.by(report) for report in reports]
    again = naming.repeated({email for found in candidates for email in found})
    expected = arrivals.expected(report for report, found in zip(reports, candidates, strict=True) if not found)
    before: list[Handled | None] = []
    for report, found in zip(reports, candidates, strict=True):
        email = naming.best(found, report) if found else None
        is_ours = email is not None and naming.is_to(email, report)
        if email is None:
            is_new = bool(expected & report.addresses)
        else:
            is_new = is_ours and not _is_noted(email, report, again.get(email.pk))
        before.append(None if is_new else Handled("Nothing was changed.", believed=is_ours))
    return before


def _is_noted(email: Email, report: BounceReport, sent_again_at: datetime | None) -> bool:
    """Return whether the e-mail's row has what the report says."""
    if report.action is ReportAction.COMPLAINED and email.complained_at is None:
        return False
    if naming.is_of_an_earlier_sending(report, sent_again_at):
        return True
    if email.state in (EmailState.SENDING, EmailState.UNKNOWN) or email.ask_until is not None:
        return False
    if report.action is ReportAction.FAILED:
        return email.state != EmailState.SENT
    return report.action is not ReportAction.DELIVERED or arrivals.is_delivery_noted(email, report)


def _complain(email: Email, report: BounceReport) -> None:
    """Suppress the recipient because of the first complaint about this e-mail."""
    with transaction.atomic():
        if arrivals.note_complaint(email, report):
            _suppress(email, f"Its recipient complained of e-mail {email.pk}: {_reason(report, email)}")


def _bounced(email: Email, report: BounceReport, said: str, who: str) -> Handled:
    try:
        _bounce(email, report, who)
    except resolving.CannotBeResolved as error:
        email.refresh_from_db()
        if email.state == EmailState.SENDING or email.ask_until is not None:
            raise TooSoon(str(error)) from error
        return Handled(f"Nothing was changed. {error} {said}", believed=True)
    return Handled(said, believed=True, bounced=True)


def _unnamed(report: BounceReport) -> str:
    """Return a sentence about a report that names no e-mail of ours for certain."""
    ids = [f"<{name}>" for name in naming.names(report)]
    if Email.objects.filter(message_id__in=ids, is_id_shared=True).exists():
        return (
            f"others than the recipient may know {report.message_id or 'the Message-ID'}. Give each e-mail an address "
            "for reports of its own: WEIR_MAIL_ENVELOPE_SENDER, with {id}."
        )
    return f"{report.message_id or 'it'} is not a Message-ID of ours."


def _bounce(email: Email, report: BounceReport, who: str) -> None:
    """Record that the e-mail came back. Raises resolving.CannotBeResolved, and any error of a receiver."""
    why = _reason(report, email)
    with transaction.atomic():
        email = resolving.resolve(email.pk, Act.BOUNCED, who, why)
        if _names_a_dead_recipient(report):
            _suppress(email, f"E-mail {email.pk} came back: {why}")
        email_bounced.send(sender=Email, email=email, report=report)


def _names_a_dead_recipient(report: BounceReport) -> bool:
    """Return whether the report says that the recipient's own address, not one that it forwards to, is dead."""
    is_named = report.addresses and not report.is_forwarded
    return bool(is_named) and is_of_a_dead_address(report.status, report.diagnostic, is_of_content=report.is_of_content)


def _suppress(email: Email, why: str) -> None:
    if email.recipient:  # it is empty if the recipient was forgotten
        suppression.suppress(email.recipient, why)


def _reason(report: BounceReport, email: Email) -> str:
    """Return status and diagnostic without addresses, because reasons are kept for longer than addresses."""
    status = "" if report.diagnostic.startswith(report.status) else report.status
    said = " ".join(filter(None, (status, report.diagnostic))) or "The report gives no reason."
    for address in (email.recipient, *report.addresses):
        said = addresses.redacted(said, address)
    return storable(said, LONGEST_WHY)
