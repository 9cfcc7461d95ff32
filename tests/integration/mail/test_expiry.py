"""E-mails expire: no attempt begins when their time is over, whatever they wait for, and all of them end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import InThreads
from tests.integration.mail.notes import note, note_kind
from tests.integration.mail.shipments import MARKS, ConnectedTransport, accepted, state, use
from tests.waiting import wait_for
from weir.ratelimit import site_settings
from weir.ratelimit.throttle import throttle
from weir.workers.ledger import leases as ledger
from weir.workers.mail import suppression
from weir.workers.mail.maintenance import operators
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email, PausedKind
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases, outcomes, routes, runner
from weir.workers.mail.tasks import purge_emails, send_emails
from weir.workers.mail.transports.base import Accepted, OutcomeUnknown, RelayRefuses
from weir.workers.mail.transports.smtp import EmailBackend

pytestmark = [*MARKS, pytest.mark.usefixtures("note_kind")]
__all__ = ["note_kind"]
HOUR = timedelta(hours=1)
EXPIRED = (EmailState.EXPIRED, 0)


def code(key: str = "17", **changes: Any) -> Email:
    """Queue a note that expires."""
    return note(key, expires_at=timezone.now() + HOUR, **changes)


def over(email: Email) -> None:
    """End the time of this one now."""
    assert Email.objects.filter(pk=email.pk).update(expires_at=Now())


def expire_emails() -> None:
    """End what has expired, as each task of a mailer does first."""
    leases.end_expired(60.0)


def claimed() -> Email:
    [email] = leases.claim(1, uuid4())
    return email


# --- in a mailer's hands --------------------------------------------------------------------------


def test_one_that_is_due_and_has_expired_is_not_tried(
    mail: MailServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No relay is asked, and none need be running; it takes no turn from the others, which are sent."""
    email = code()
    over(email)
    port, settings.EMAIL_PORT, settings.WEIR_MAIL_RATE = settings.EMAIL_PORT, 1, "1/h"
    routes.site.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(routes, "throttle", lambda *_, **__: pytest.fail("it waited for its turn"))
        report = runner.send_due()
    settings.EMAIL_PORT, settings.WEIR_MAIL_RATE = port, ""
    assert (report.expired, report.stopped_because) == (1, "")
    assert state(email) == EXPIRED
    other = code("18")
    assert runner.send_due() == runner.SendReport(sent=1)
    assert (accepted(mail, email), accepted(mail, other)) == (0, 1)


def test_one_that_expires_while_it_waits_for_its_turn(
    mail: MailServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the relay's rate lets it go at last, no mailer connects for it."""
    monkeypatch.setattr(routes, "LONGEST_IDLE_S", 0.0)  # the turn is far away
    settings.WEIR_MAIL_RATE = "100/s"
    routes.site.cache_clear()
    email = code()

    @contextmanager
    def long_wait(*arguments: Any, **options: Any) -> Iterator[None]:
        with throttle(*arguments, **options):
            over(email)
            yield

    monkeypatch.setattr(f"{routes.__name__}.throttle", long_wait)
    before, settings.EMAIL_PORT = len(mail.events()), 1
    assert runner.send_due() == runner.SendReport(expired=1)
    assert (state(email), len(mail.events())) == (EXPIRED, before)


def test_one_that_expires_between_its_claim_and_its_beginning(
    mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mailer stood still when the server had said 354: the connection is cut, and the next e-mail is sent."""
    email, other, ask = code(), note("18"), EmailBackend._ask_to_send

    def stand_still(backend: EmailBackend, message: Message) -> None:
        ask(backend, message)
        over(email)

    monkeypatch.setattr(EmailBackend, "_ask_to_send", stand_still)
    report = runner.send_due()
    assert (report.sent, report.expired) == (1, 1)
    assert (state(email), state(other)) == (EXPIRED, (EmailState.SENT, 1))
    assert (accepted(mail, email), accepted(mail, other)) == (0, 1)


def test_one_that_has_begun_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its outcome is; e-mails that wait meanwhile end."""

    class Slow(ConnectedTransport):
        def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:  # noqa: ARG002  a transport's signature
            begin()
            over(email)
            expire_emails()
            return Accepted("250 OK")

    use(monkeypatch, Slow)
    email = code()
    assert runner.send_due() == runner.SendReport(sent=1)
    assert state(email) == (EmailState.SENT, 1)


def found_by_its_mailer(email: Email) -> None:
    with pytest.raises(leases.ClaimLost) as lost:
        leases.refuse_expired(email)
    assert lost.value.outcome
    assert lost.value.outcome.state == EmailState.EXPIRED


def found_by_the_schedule(_email: Email) -> None:
    expire_emails()


@pytest.mark.parametrize("find", [found_by_its_mailer, found_by_the_schedule])
def test_what_is_claimed_ends_and_its_mailer_writes_no_more(find: Callable[[Email], None]) -> None:
    """Even if its mailer died; a mailer that goes on neither begins it, nor writes an outcome."""
    code()
    email = claimed()
    over(email)
    find(email)
    with pytest.raises(leases.ClaimLost):
        leases.begin(email, "relay", None)
    assert not leases.record(email, outcomes.given_back("451 later"))
    assert leases.give_back([token for token in [email.claim_token] if token]) == 0
    assert (state(email), email.claimed_until, email.last_reply) == (EXPIRED, None, "")
    assert email.ended_at


def test_a_mailer_with_a_wrong_clock_keeps_to_postgresqls(mail: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its clock is slow or fast, it neither sends what has expired, nor expires what has not."""
    late, early, now = code("late"), code("early"), timezone.now
    over(late)
    monkeypatch.setattr(timezone, "now", lambda: now() - 2 * HOUR)
    runner.send_due(limit=1)
    monkeypatch.setattr(timezone, "now", lambda: now() + 2 * HOUR)
    runner.send_due()
    assert (state(late), state(early)) == (EXPIRED, (EmailState.SENT, 1))
    assert accepted(mail, late) == 0


def test_of_many_at_once_each_begins_or_expires(in_threads: InThreads) -> None:
    """Mailers begin each at the moment when it expires, and the scheduled task ends them meanwhile: never both."""
    queued = [note(str(number)) for number in range(40)]
    soon = timezone.now() + timedelta(seconds=0.5)
    for number, email in enumerate(queued):
        Email.objects.filter(pk=email.pk).update(expires_at=soon + timedelta(milliseconds=5 * number))
    waiting = leases.claim(40, uuid4())
    begun: list[int] = []

    def are_ended() -> bool:
        expire_emails()
        return not Email.objects.filter(state=EmailState.CLAIMED).exists()

    def begin_and_sweep(number: int) -> None:
        for email in waiting[number - 1 :: 2] if number else ():
            while email.expires_at and timezone.now() < email.expires_at - timedelta(milliseconds=number):
                pass
            with suppress(leases.ClaimLost):
                leases.begin(email, "relay", None)
                begun.append(email.pk)
        if not number:
            wait_for(are_ended, 30, "all to begin, or to expire")

    in_threads(3, begin_and_sweep)
    assert set(Email.objects.filter(state=EmailState.SENDING).values_list("pk", flat=True)) == set(begun)
    assert Email.objects.filter(state=EmailState.EXPIRED).count() == 40 - len(begun)


# --- whatever it waits for ------------------------------------------------------------------------


def its_kind_is_paused(email: Email) -> None:
    operators.pause(email.kind, "kim", "not now")
    assert runner.send_due() == runner.SendReport()


def its_relay_is_held(_email: Email, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(ConnectedTransport):
        def submit(self, _message: Message, _begin: object) -> Accepted:
            raise RelayRefuses("550 5.7.1 not yours")

    use(monkeypatch, Refuses)
    for _ in range(3):
        Email.objects.update(next_attempt_at=Now())
        report = runner.send_due()
    assert report.stopped_because


def test_it_ends_while_its_kind_is_paused() -> None:
    email = code()
    its_kind_is_paused(email)
    over(email)
    assert runner.send_due() == runner.SendReport()
    expire_emails()
    assert state(email) == EXPIRED


def test_it_ends_while_its_relay_is_held_and_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    email = code()
    its_relay_is_held(email, monkeypatch)
    over(email)
    expire_emails()
    assert state(email) == EXPIRED
    assert (email.last_reply, email.phase) == ("550 5.7.1 not yours", Phase.NOT_BEGUN)


def test_it_ends_while_its_domain_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    site_settings.set_rate("customers.example:25", "1/h")
    use(monkeypatch, ConnectedTransport)  # type: ignore[arg-type]  # it is not asked to submit
    email = code(to="kim@customers.example")
    site_settings.pause("customers.example:25")
    assert runner.send_due().sent == 0
    assert state(email) == (EmailState.PENDING, 0)
    over(email)
    expire_emails()
    assert state(email) == EXPIRED
    assert "customers.example:25 is" in email.last_reply


def test_it_ends_between_two_attempts_and_says_what_was_tried(mail: MailServer) -> None:
    """The next one would be later: the relay's last reply is kept."""
    email = code(to="greylist-9.1@customers.example")
    assert runner.send_due().postponed == 1
    over(email)
    assert runner.send_due() == runner.SendReport()
    expire_emails()
    assert state(email) == (EmailState.EXPIRED, 1)
    assert (email.last_reply, email.phase) == ("451 4.7.1 Come back later", Phase.NOT_BEGUN)
    assert accepted(mail, email) == 0


def test_what_has_not_expired_goes_on_and_what_has_ended_stays() -> None:
    waits, goes_on, ended = note("waits"), code("goes on"), code("ended")
    Email.objects.filter(pk=ended.pk).update(state=EmailState.CANCELLED)
    over(ended)
    expire_emails()
    assert [state(email)[0] for email in (waits, goes_on, ended)] == [
        EmailState.PENDING,
        EmailState.PENDING,
        EmailState.CANCELLED,
    ]


def test_all_of_them_end_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within its time; what is locked is left for the next call."""
    monkeypatch.setattr(ledger, "SWEPT_AT_ONCE", 3)
    for number in range(8):
        code(str(number))
    Email.objects.update(expires_at=Now())
    assert leases.end_expired(0.0) == 3
    assert leases.end_expired(60.0) == 5
    assert leases.end_expired(60.0) == 0


# --- where it may have been accepted --------------------------------------------------------------


def asked(key: str = "17", key_lifetime: timedelta = 24 * HOUR) -> Email:
    """Return one that may have been accepted by a relay that is asked what became of it."""
    code(key)
    email = claimed()
    leases.begin(email, "first", key_lifetime)
    outcome = outcomes.asked_in_vain("the answer is lost")
    assert leases.record(email, outcome)
    assert state(email)[0] == EmailState.PENDING
    return email


def test_a_relay_is_asked_no_longer_than_the_email_may_be_sent(settings: Settings) -> None:
    """To ask is to transmit it again; if the relay forgets the key sooner, that counts."""
    settings.WEIR_MAIL_UNKNOWN_AFTER = 60.0
    longer, shorter = asked("1"), asked("2", timedelta(minutes=30))
    assert longer.ask_until == longer.expires_at
    assert shorter.ask_until
    assert shorter.expires_at
    assert shorter.ask_until < shorter.expires_at


def test_a_relay_that_knows_no_keys_is_never_asked_again() -> None:
    """That would be a second e-mail, whenever the first one expires."""
    code()
    email = claimed()
    leases.begin(email, "first", None)
    assert Email.objects.get().ask_until is None
    Email.objects.update(sending_since=Now() - HOUR)
    assert leases.end_silent() == 1
    assert state(email)[0] == EmailState.UNKNOWN


@pytest.mark.parametrize("task", [send_emails, purge_emails], ids=["a mailer", "no mailer"])
def test_the_schedule_ends_what_nobody_may_send(task: Callable[[], None]) -> None:
    """Its kind is paused, or no mailer runs."""
    email = code()
    over(email)
    PausedKind.objects.create(kind=email.kind, who="Ada", why="x")
    task()
    assert state(email) == EXPIRED


@pytest.mark.parametrize("way", [expire_emails, runner.send_due], ids=["the schedule", "a mailer"])
def test_it_is_unknown_and_not_expired(way: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was accepted is not known, and no mailer asks any more."""
    use(monkeypatch, ConnectedTransport)  # type: ignore[arg-type]  # it is not asked to submit
    email = asked()
    Email.objects.update(next_attempt_at=Now(), expires_at=Now())
    way()
    assert state(email)[0] == EmailState.UNKNOWN
    assert "It has expired: first is not asked any more" in email.last_reply
    assert email.last_reply.endswith("the answer is lost")
    assert (email.phase, bool(email.claim_token), bool(email.sending_since)) == (Phase.BEGUN, True, True)


def test_an_unknown_one_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It began in time, and its outcome is not known: the end of its time says nothing about the outcome."""

    class Loses(ConnectedTransport):
        def submit(self, _message: Message, begin: Callable[[], None]) -> Accepted:
            begin()
            raise OutcomeUnknown("the answer is lost", Phase.AFTER_DOT)

    use(monkeypatch, Loses)
    email = code()
    assert runner.send_due() == runner.SendReport(unknown=1)
    over(email)
    expire_emails()
    assert state(email) == (EmailState.UNKNOWN, 1)


def test_one_whose_mailer_died_while_it_was_sent_is_unknown() -> None:
    """Its relay would be asked, but its time is over."""
    code()
    email = claimed()
    leases.begin(email, "first", 24 * HOUR)
    Email.objects.update(sending_since=Now() - HOUR, expires_at=Now(), ask_until=Now())
    expire_emails()
    assert state(email)[0] == EmailState.SENDING
    assert leases.end_silent() == 1
    assert state(email)[0] == EmailState.UNKNOWN


# --- forgotten recipients -------------------------------------------------------------------------


def test_what_was_queued_to_somebody_forgotten_meanwhile_is_forgotten() -> None:
    """Its transaction committed after the forgetting, and no mailer takes an e-mail that has expired."""
    email, other = code(), code("18", to="robin@customers.example")
    suppression.forget("kim@customers.example", "Its owner was forgotten.")
    Email.objects.update(expires_at=Now())
    expire_emails()
    assert (state(email), email.recipient, email.subject) == (EXPIRED, "", "")
    assert (state(other), other.recipient) == (EXPIRED, "robin@customers.example")
