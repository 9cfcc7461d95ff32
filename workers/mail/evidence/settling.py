"""Resolves unknown e-mails according to what logs prove.

By default, the logs are taken for the logs of the only relay in the settings, if that relay is a mail server. For a
provider with an HTTP API there is no such default, because no mail server's log has a line about e-mails to it.

Mailers and operators may work at the same time. An e-mail is resolved only if it is still `unknown` because of the
attempt that was judged, which is checked again while its row is locked. If a late worker or an operator has said before
what became of the e-mail, that counts.

A message to several recipients is one e-mail for each, and all have the message's Message-ID. So a line that accepts
this Message-ID does not say which of them was accepted, and proves nothing. If there is no such line, none was.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo

from django.db import transaction

from weir.conf import settings
from weir.postgres.texts import storable
from weir.workers.mail import addresses, resolving
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.reading import Logs
from weir.workers.mail.evidence.signs import bare
from weir.workers.mail.evidence.verdicts import LoggedAttempt, LogOutcome, LogVerdict, Vouched, judge
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.transports import relays

MOST = 100_000  # e-mails that are judged in one call, the oldest first; they take some 50 MB of memory
LONGEST_WHY = 2_000  # characters that are kept
OF_OTHERS = "Other e-mails may have its Message-ID, and the log does not say which of them was accepted:"
Resolve = Callable[[int, Act, str], object]


@dataclass(frozen=True, slots=True)
class Given:
    """What the operator says about the files."""

    zone: tzinfo  # the zone of times that name no zone
    year: int | None = None  # the year of the last line, in files whose lines name no year
    hosts: Collection[
        tuple[str, str]
    ] = ()  # pairs of a host and a file-name pattern: lines without a host in such files belong to that host


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
    """What the logs say, and how each unknown e-mail was judged."""

    logs: Logs
    judged: list[JudgedEmail] = field(default_factory=list)
    more: bool = False  # there are more unknown e-mails than are judged in one call

    def counts(self) -> Counter[LogOutcome]:
        """Return the number of e-mails with each outcome."""
        return Counter(each.verdict.outcome for each in self.judged)


def settle(names: Sequence[str], vouched: Vouched, given: Given, resolve: Resolve | None = None) -> EvidenceReport:
    """Judge the unknown e-mails, MOST at most, by these log files, and resolve those about which something is proven.

    `resolve` is called with the e-mail's id, the act and the reason. It makes an accepted e-mail `sent`, and resends an
    e-mail that was certainly not accepted; all others stay unchanged. It must not change `expires_at`, because no log
    says that an e-mail may be late. Without `resolve`, e-mails are only judged. Raises files.CannotBeRead, before
    anything is resolved.
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
    columns = ("pk", "message_id", "sending_since", "relay", "recipient", "phase", "created_at", "is_id_shared")
    return list(Email.objects.unknown().only(*columns)[: MOST + 1])


def _judged(unknown: Sequence[Email], logs: Logs, vouched: Vouched) -> Iterator[JudgedEmail]:
    longest = timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)
    others = [relay.name for relay in relays.relays() if relay.name not in vouched.relays]
    for email in unknown:
        noted = email.sending_since
        if noted is not None:  # always: a constraint requires it
            since, relay = noted, email.relay
            if email.phase == Phase.FORGOTTEN:  # it may have been sent at any time until then, to any relay
                since, relay = email.created_at, ", ".join(others)
            attempt = LoggedAttempt(message_id=bare(email.message_id), relay=relay, since=since, until=noted + longest)
            verdict = judge(attempt, logs, vouched)
            if email.is_id_shared and verdict.outcome is LogOutcome.ACCEPTED:
                verdict = LogVerdict(outcome=LogOutcome.STILL_UNKNOWN, why=f"{OF_OTHERS} {verdict.why}")
            why = addresses.redacted(verdict.why, email.recipient)
            yield JudgedEmail(email.pk, email.message_id, noted, replace(verdict, why=why))


def _resolved(judged: JudgedEmail, resolve: Resolve) -> JudgedEmail:
    """Resolve the e-mail if something is proven and nobody has resolved it meanwhile; say whether it was resolved."""
    if judged.verdict.outcome is LogOutcome.STILL_UNKNOWN:
        return judged
    with transaction.atomic():
        # Only the same attempt: since the logs were read, the e-mail may have been resent, and become unknown again.
        same = Email.objects.filter(pk=judged.id, state=EmailState.UNKNOWN, sending_since=judged.sending_since)
        if same.select_for_update().first() is None:
            return judged
        act = Act.ARRIVED if judged.verdict.outcome is LogOutcome.ACCEPTED else Act.RESEND
        try:
            resolve(judged.id, act, storable(judged.verdict.why, LONGEST_WHY))
        except resolving.CannotBeResolved as error:  # its content is not kept any more
            return replace(judged, verdict=LogVerdict(outcome=LogOutcome.STILL_UNKNOWN, why=str(error)))
    return replace(judged, resolved=True)
