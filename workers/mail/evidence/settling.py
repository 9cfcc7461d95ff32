"""Settles unknown e-mails by what logs prove.

By default the logs are taken for those of the only relay that the settings name, if it is a mail server: no mail
server's log has a line about e-mails to a provider with an HTTP API.

Safe beside mailers and operators: an e-mail is resolved only if it is still `unknown` by the attempt that was judged,
which is looked at again with its row locked. What a late worker reports first counts, and so does what an operator
says.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo

from django.db import transaction

from weir.conf import settings
from weir.postgres.texts import storable
from weir.workers.mail import addresses
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.reading import Logs
from weir.workers.mail.evidence.signs import bare
from weir.workers.mail.evidence.verdicts import LoggedAttempt, LogOutcome, LogVerdict, Vouched, judge
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.transports import relays

MOST = 100_000  # e-mails that are judged in one call, the oldest first: some 50 MB
LONGEST_WHY = 2_000  # characters that are kept
Resolve = Callable[[int, Act, str], object]


@dataclass(frozen=True, slots=True)
class Given:
    """What the operator says about the files."""

    zone: tzinfo  # of times that name none
    year: int | None = None  # of the last line of files whose lines name no year
    hosts: Collection[
        tuple[str, str]
    ] = ()  # names of hosts, each with a pattern of names of files whose lines name no host


@dataclass(frozen=True, slots=True)
class JudgedEmail:
    """An unknown e-mail, and what the logs prove about it."""

    id: int
    message_id: str
    sending_since: datetime
    verdict: LogVerdict
    resolved: bool = False


@dataclass(slots=True)
class EvidenceReport:
    """What was read, and what was judged."""

    logs: Logs
    judged: list[JudgedEmail] = field(default_factory=list)
    more: bool = False  # there are more unknown e-mails than are judged in one call

    def counts(self) -> Counter[LogOutcome]:
        """Return how many there are of each outcome."""
        return Counter(each.verdict.outcome for each in self.judged)


def settle(names: Sequence[str], vouched: Vouched, given: Given, resolve: Resolve | None = None) -> EvidenceReport:
    """Judge all unknown e-mails by these log files, and resolve those about which something is proven.

    `resolve` is called with the e-mail, the act and the reason: what was accepted becomes `sent`, what was certainly
    not accepted is sent again, all else stays as it is. It must leave `expires_at` as it is, because no log says that
    an e-mail may be late. Raises files.CannotBeRead, before anything is resolved.
    """
    unknown = _unknown()
    known = relays.relays()
    if not vouched.relays and len(known) == 1 and known[0].is_smtp:
        vouched = replace(vouched, relays=[known[0].name])
    with files.opened(names, given.hosts) as opened:
        logs = reading.read(opened, {bare(email.message_id) for email in unknown}, given.zone, given.year)
    report = EvidenceReport(logs, more=len(unknown) > MOST)
    for judged in _judged(unknown[:MOST], logs, vouched):
        report.judged.append(_resolved(judged, resolve) if resolve else judged)
    return report


def _unknown() -> list[Email]:
    columns = ("pk", "message_id", "sending_since", "relay", "recipient", "phase", "created_at")
    return list(Email.objects.unknown().only(*columns)[: MOST + 1])


def _judged(unknown: Sequence[Email], logs: Logs, vouched: Vouched) -> Iterator[JudgedEmail]:
    longest = timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)
    others = [relay.name for relay in relays.relays() if relay.name not in vouched.relays]
    for email in unknown:
        noted = email.sending_since
        if noted is not None:  # always: a constraint requires it
            since, relay = noted, email.relay
            if email.phase == Phase.FORGOTTEN:  # it may have gone at any time until then, by any relay
                since, relay = email.created_at, ", ".join(others)
            attempt = LoggedAttempt(message_id=bare(email.message_id), relay=relay, since=since, until=noted + longest)
            verdict = judge(attempt, logs, vouched)
            why = addresses.redacted(verdict.why, email.recipient)
            yield JudgedEmail(email.pk, email.message_id, noted, replace(verdict, why=why))


def _resolved(judged: JudgedEmail, resolve: Resolve) -> JudgedEmail:
    """Resolve the e-mail, if something is proven and it was not resolved meanwhile; say whether it was resolved."""
    if judged.verdict.outcome is LogOutcome.STILL_UNKNOWN:
        return judged
    with transaction.atomic():
        # The same attempt: between reading and now it may have been sent again, and be unknown again.
        same = Email.objects.filter(pk=judged.id, state=EmailState.UNKNOWN, sending_since=judged.sending_since)
        if same.select_for_update().first() is None:
            return judged
        act = Act.ARRIVED if judged.verdict.outcome is LogOutcome.ACCEPTED else Act.RESEND
        resolve(judged.id, act, storable(judged.verdict.why, LONGEST_WHY))
    return JudgedEmail(judged.id, judged.message_id, judged.sending_since, judged.verdict, resolved=True)
