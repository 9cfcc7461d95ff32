"""Notes what reports say about e-mails that did not come back: a relay has the e-mail, or its recipient complained."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q
from django.db.models.functions import Least, Now

from weir.postgres.statements import Statement
from weir.workers.mail import resolving
from weir.workers.mail.bounces.reports import BounceReport, ReportAction
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending.leases import LEDGER

NEWEST: Final = 100  # e-mails to a recipient, among which one that is being sent is looked for
EXPECTING = Statement("expecting", returns=str, commits=False)
NOTE_DELIVERIES = Statement("note_deliveries", returns=int, commits=False)


def note(email: Email, report: BounceReport, who: str, why: str) -> None:
    """Record what a report proves that is not of a failure: that a relay has the e-mail, and when it was delivered.

    An unknown e-mail becomes `sent`. If a mailer is sending the e-mail, its outcome will be `sent`, even if the mailer
    dies. An e-mail about which a relay is to be asked again is `sent` without the question. In any other state, the
    e-mail keeps its state. May be killed between the two statements: the report comes again.
    """
    if email.state == EmailState.UNKNOWN:
        try:
            resolving.resolve(email.pk, Act.ARRIVED, who, why)
        except resolving.CannotBeResolved:  # somebody else was faster
            email.refresh_from_db()
    if email.state == EmailState.SENDING or email.ask_until is not None:
        LEDGER.note_acceptance(email.pk, f"{who}: {why}")
    if report.action is ReportAction.DELIVERED:
        _note_delivery(email, report.arrived_by)


def note_deliveries(deliveries: Mapping[int, datetime], clock_error: timedelta) -> int:
    """Record when these sent e-mails were delivered, by one statement, as `note` does for each; return how many it is.

    An e-mail that is not `sent` when the statement comes to its row, or was sent again since, is left as it is.
    """
    times = {"emails": list(deliveries), "times": list(deliveries.values()), "clock_error": clock_error}
    return len(NOTE_DELIVERIES(**times)) if deliveries else 0


def note_complaint(email: Email, report: BounceReport) -> bool:
    """Record, in the caller's transaction, when the recipient complained; return False if that is known already."""
    new = Email.objects.filter(pk=email.pk, complained_at=None)
    return bool(new.update(complained_at=_not_in_the_future(report.arrived_by)))


def is_delivery_noted(email: Email, report: BounceReport) -> bool:
    """Return whether the e-mail's row has the delivery that the report says, or a later one."""
    if email.delivered_at is None:
        return False
    return report.arrived_by is None or report.arrived_by <= email.delivered_at


def expected(reports: Iterable[BounceReport]) -> set[str]:
    """Return the recipients in these reports to whom an e-mail may get, any moment, the name that a provider gave it.

    That is an e-mail that is being sent, or about which a relay will be asked again, among the newest ones.
    """
    addresses = {address for report in reports for address in report.addresses}
    return set(EXPECTING(addresses=sorted(addresses), newest=NEWEST)) if addresses else set()


def _note_delivery(email: Email, at: datetime | None) -> None:
    """Record the delivery that came last, so that the order of reports does not matter."""
    older = Q(delivered_at=None) if at is None else Q(delivered_at=None) | Q(delivered_at__lt=Least(at, Now()))
    Email.objects.filter(older, pk=email.pk).update(delivered_at=_not_in_the_future(at))


def _not_in_the_future(moment: datetime | None) -> Least | Now:
    return Now() if moment is None else Least(moment, Now())
