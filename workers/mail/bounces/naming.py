"""Finds the e-mails that reports name, for many reports by as few statements as for one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import Max

from weir.workers.mail import renderings
from weir.workers.mail.bounces.reports import BounceReport
from weir.workers.mail.bounces.spellings import spellings
from weir.workers.mail.models import Act, Email, Resolution

MOST = 10  # e-mails that are looked up with the providers' ids in one report
SHORTEST_ID = 20  # characters of a provider's id; shorter ids, such as numbers, can be guessed and do not count
CLOCK_ERROR = timedelta(minutes=5)  # how much the clocks of the database and of a mail server may differ, at most


class Named:
    """The e-mails of ours that some reports name.

    A Message-ID that several recipients know counts only in a report of a provider, and only if it names the recipient.
    """

    def __init__(self, reports: Sequence[BounceReport], *, from_provider: bool) -> None:
        """Look the names up, by two statements and, if e-mails have envelope senders of their own, one more each."""
        self._may_share_ids = from_provider
        found = [names(report) for report in reports]
        with_ids = Email.objects.filter(message_id__in={f"<{name}>" for each in found for name in each})
        if not from_provider:
            with_ids = with_ids.filter(is_id_shared=False)
        self._by_message_id = _by(with_ids, "message_id")
        provided = {name for each in found for name in _provided(each)}
        most = MOST * len(reports)
        with_provider_ids = list(Email.objects.filter(provider_id__in=provided).exclude(provider_id="")[:most])
        self.is_complete = len(with_provider_ids) < most  # or some e-mails of some reports may be missing
        self._by_provider_id = _by(with_provider_ids, "provider_id")

    def by(self, report: BounceReport) -> list[Email]:
        """Return the e-mails that the report names, the most certain first."""
        found = names(report)
        may_share = self._may_share_ids and bool(report.addresses)
        with_ids = [email for name in found for email in self._by_message_id.get(f"<{name}>", ())]
        with_provider_ids = [email for name in _provided(found) for email in self._by_provider_id.get(name, ())]
        named = [
            *renderings.sent_from(found),
            *(email for email in with_ids if may_share or not email.is_id_shared),
            *with_provider_ids[:MOST],
        ]
        return list(dict.fromkeys(named))


def names(report: BounceReport) -> list[str]:
    """Return the words in a report that may be Message-IDs, without < and >."""
    return [name for name in dict.fromkeys((report.message_id.strip("<>"), *report.names)) if name]


def best(candidates: Sequence[Email], report: BounceReport) -> Email:
    """Return the first of these e-mails that went to the report's recipient, or else the first."""
    return next((each for each in candidates if is_to(each, report)), candidates[0])


def is_to(email: Email, report: BounceReport) -> bool:
    """Return whether the report can be about the e-mail's recipient: it names that address, or no address."""
    return not report.addresses or bool(report.addresses & spellings(email.recipient))


def repeated(emails: Collection[Email]) -> dict[int, datetime]:
    """Return, by id, when these e-mails were last sent again by an operator, if they were."""
    again = Resolution.objects.filter(email__in=[email.pk for email in emails], act__in=[Act.RESEND, Act.CORRECT])
    return dict(again.values_list("email").annotate(last=Max("resolved_at"))) if emails else {}


def is_of_an_earlier_sending(report: BounceReport, sent_again_at: datetime | None) -> bool:
    """Return whether the server got the e-mail before an operator resent it.

    Both transmissions have the same Message-ID, so only the time tells them apart.
    """
    if report.arrived_by is None or sent_again_at is None:
        return False
    return report.arrived_by < sent_again_at - CLOCK_ERROR


def _provided(found: Sequence[str]) -> list[str]:
    """Return the names, in the forms in which e-mails have providers' ids, that nobody can guess."""
    forms = dict.fromkeys(
        form for name in found for form in (name, f"<{name}>", name.partition("@")[0]) if len(form) >= SHORTEST_ID
    )
    return list(forms)


def _by(emails: Iterable[Email], field: str) -> dict[str, list[Email]]:
    found = defaultdict[str, list[Email]](list)
    for email in emails:
        found[getattr(email, field)].append(email)
    return found
