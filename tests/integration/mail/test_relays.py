"""Several relays, relays that know idempotency keys, and acceptances that come late."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.mail.shipments import MARKS, ConnectedTransport, ship, state
from weir.workers.mail import resolving
from weir.workers.mail.message import Message
from weir.workers.mail.models import Act, Email, RelayHold, Suppression
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases, outcomes, routes, runner
from weir.workers.mail.suppression import suppress
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.base import Accepted, CannotTake, OutcomeUnknown, RelayRefuses, Transport, Unreachable

pytestmark = MARKS


class Fake:
    """A relay of the test's own; `behave` says what becomes of each submission, by how many there were before."""

    place = ""  # no rate

    def __init__(self, name: str, behave: Callable[[int], Accepted], key_lifetime: timedelta | None = None) -> None:
        self.name, self._behave, self._key_lifetime = name, behave, key_lifetime
        self.keys: list[str] = []

    def new(self) -> Transport:
        relay = self

        class Connection(ConnectedTransport):
            key_lifetime = relay._key_lifetime

            def submit(self, message: Message, begin: Any) -> Accepted:
                begin()
                relay.keys.append(message.idempotency_key)
                return relay._behave(len(relay.keys))

        return Connection()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the settings name these relays."""
    routes.forget_failures()
    return lambda *fakes: monkeypatch.setattr(relays, "relays", lambda: fakes)


def accept(_before: int) -> Accepted:
    return Accepted("250 OK", "id-1")


def lose_first(number: int) -> Accepted:
    if number == 1:
        raise OutcomeUnknown("the answer is lost", Phase.BEGUN)
    return Accepted("200 OK", "id-1")


def refuse_us(_before: int) -> Accepted:
    raise RelayRefuses("550 5.7.1 not yours")


def lose(_before: int) -> Accepted:
    raise OutcomeUnknown("the answer is lost", Phase.BEGUN)


def due_now() -> None:
    Email.objects.filter(state=EmailState.PENDING).update(next_attempt_at=Now())


def unreachable() -> Transport:
    class Down(ConnectedTransport):
        is_connected = False

        def connect(self) -> None:
            raise Unreachable("nobody there")

    return Down()  # type: ignore[return-value]  # never submits


def test_what_the_first_relay_cannot_take_goes_by_the_second(use: Callable[..., None]) -> None:
    """Immediately; operators see which one is held and why, until it works again."""
    first, second = Fake("first", accept), Fake("second", accept)
    works, first.new = first.new, unreachable  # type: ignore[method-assign]
    use(first, second)
    email = ship()
    assert runner.send_due().sent == 1
    assert (state(email), email.relay, email.provider_id) == ((EmailState.SENT, 1), "second", "id-1")
    hold = RelayHold.objects.get()
    assert (hold.relay, hold.reason) == ("first", "Unreachable: nobody there")
    first.new = works  # type: ignore[method-assign]
    ship()
    assert runner.send_due().sent == 1
    assert len(first.keys) == 1
    assert not RelayHold.objects.exists()


def small() -> Transport:
    class Small(ConnectedTransport):
        def submit(self, _message: Message, _begin: object) -> Accepted:
            raise CannotTake("The e-mail has 9 bytes, and the mail server takes 8 at most.")

    return Small()


def test_what_the_first_relay_has_no_extension_for_goes_by_the_second(use: Callable[..., None]) -> None:
    """If none can take it, it fails; if one cannot be reached, it waits for that one, and holds up no other e-mail."""
    first, second = Fake("first", accept), Fake("second", accept)
    first.new = small  # type: ignore[method-assign]
    use(first, second)
    email = ship()
    assert runner.send_due().sent == 1
    assert (state(email), email.relay) == ((EmailState.SENT, 1), "second")
    works, second.new = second.new, unreachable  # type: ignore[method-assign]
    emails = [ship(), ship()]
    report = runner.send_due()
    assert (report.given_back, report.failed, report.stopped_because) == (2, 0, "")
    second.new = works  # type: ignore[method-assign]
    due_now()
    assert runner.send_due().sent == 2
    assert {state(email) for email in emails} == {(EmailState.SENT, 1)}
    second.new = small  # type: ignore[method-assign]
    email = ship()
    assert runner.send_due().failed == 1
    assert "8 at most" in (state(email) and email.last_reply)


def test_a_relay_that_refuses_us_costs_no_email_an_attempt(use: Callable[..., None]) -> None:
    """Each goes back as if it had not been tried, and goes by the other relay next time."""
    use(Fake("first", refuse_us))
    emails = [ship() for _ in range(5)]
    runner.send_due()
    due_now()
    runner.send_due()
    assert {state(email) for email in emails} == {(EmailState.PENDING, 0)}
    assert "It refuses us: 550 5.7.1 not yours" in RelayHold.objects.get().reason


def test_what_may_have_been_accepted_never_goes_by_another_relay(use: Callable[..., None]) -> None:
    """It is unknown."""
    second = Fake("second", accept)
    use(Fake("first", lose), second)
    email = ship()
    assert runner.send_due().unknown == 1
    due_now()
    runner.send_due()
    assert state(email) == (EmailState.UNKNOWN, 1)
    assert second.keys == []


def test_a_relay_that_knows_the_key_is_asked_again_with_the_same_key(use: Callable[..., None]) -> None:
    """Until it says what became of the e-mail; no other relay is asked."""
    first, second = Fake("first", lose_first, timedelta(hours=1)), Fake("second", accept)
    use(first, second)
    email = ship()
    runner.send_due()
    assert (state(email), email.phase) == ((EmailState.PENDING, 1), Phase.BEGUN)
    assert email.ask_until is not None
    with pytest.raises(resolving.CannotBeResolved, match="may have been accepted: first is asked"):
        resolving.resolve(email.pk, Act.CANCEL, "kim", "too late")
    due_now()
    assert runner.send_due().sent == 1
    assert (state(email), email.provider_id) == ((EmailState.SENT, 2), "id-1")
    assert first.keys == [f"{email.message_id.strip('<>')}/1"] * 2
    assert second.keys == []


def test_a_relay_that_refuses_us_when_it_is_asked_is_asked_later_and_no_other_one_is(use: Callable[..., None]) -> None:
    """Its refusal of the question says nothing about the first attempt."""

    def lose_then_refuse(number: int) -> Accepted:
        return refuse_us(number) if number == 2 else lose_first(number)

    first, second = Fake("first", lose_then_refuse, timedelta(days=1)), Fake("second", accept)
    use(first, second)
    email = ship()
    for number in (1, 2):
        due_now()
        runner.send_due()
        assert (state(email), email.phase, len(first.keys)) == ((EmailState.PENDING, 1), Phase.BEGUN, number)
        assert email.ask_until is not None
    due_now()
    runner.send_due()
    assert (state(email)[0], email.relay, len(first.keys), second.keys) == (EmailState.SENT, "first", 3, [])


def test_one_whose_relay_cannot_be_asked_is_asked_later_and_holds_up_no_other(use: Callable[..., None]) -> None:
    first, second = Fake("first", lose_first, timedelta(days=1)), Fake("second", accept)
    use(first, second)
    asked = ship()
    runner.send_due()
    first.new = unreachable  # type: ignore[method-assign]
    other = ship()
    due_now()
    report = runner.send_due()
    assert (report.sent, report.stopped_because) == (1, "")
    assert (state(asked), asked.phase, state(other)) == ((EmailState.PENDING, 1), Phase.BEGUN, (EmailState.SENT, 1))
    assert asked.ask_until is not None


def test_one_that_is_asked_about_waits_for_no_relay_that_refuses_its_kind(use: Callable[..., None]) -> None:
    """Its own relay is asked, whichever relays its kind has now."""
    relay = Fake("first", accept)
    use(relay)
    email = ship()
    routes.refusals("first").refused(email.kind, "", "553 no", time.monotonic())
    assert routes.waits_s(relays.relays(), email) > 0.0
    email.ask_until = timezone.now()
    assert routes.waits_s(relays.relays(), email) == 0.0


def test_no_question_is_in_flight_when_the_key_is_forgotten(use: Callable[..., None], settings: Settings) -> None:
    """It would be a second e-mail: the last question is asked earlier by the longest time of a submission."""
    settings.WEIR_MAIL_UNKNOWN_AFTER = 3_600.0
    longer, too_short = timedelta(hours=2), timedelta(hours=1)
    use(Fake("first", lose, longer))
    email = ship()
    runner.send_due()
    assert state(email)[0] == EmailState.PENDING
    assert email.ask_until is not None
    assert timedelta() < email.ask_until - database_now() <= longer - timedelta(hours=1)
    use(Fake("second", lose, too_short))
    email = ship()
    assert runner.send_due().unknown >= 1  # the first one may be due again, and its relay is not there any more
    assert state(email)[0] == EmailState.UNKNOWN


def test_what_a_dead_worker_was_sending_is_asked_about_too(use: Callable[..., None]) -> None:
    """By its key, as soon as no mailer can be sending it any more; no person has to look at it."""
    first = Fake("first", accept, timedelta(days=1))
    use(first)
    email = ship()
    (claimed,) = leases.claim(10, uuid4())
    leases.begin(claimed, "first", timedelta(days=1))
    Email.objects.update(sending_since=Now() - timedelta(hours=1))
    report = runner.send_due()
    assert (report.unknown, report.sent) == (0, 1)
    assert state(email) == (EmailState.SENT, 1)


def test_when_the_key_is_forgotten_or_the_relay_is_gone_it_is_unknown(use: Callable[..., None]) -> None:
    """And it waits for an operator, like any other."""
    first = Fake("first", lose, timedelta(hours=1))
    use(first)
    forgotten, gone = ship(), ship()
    runner.send_due()
    due_now()
    Email.objects.filter(pk=forgotten.pk).update(ask_until=Now())
    use(Fake("other", accept))
    runner.send_due()
    assert (state(forgotten)[0], state(gone)[0]) == (EmailState.UNKNOWN, EmailState.UNKNOWN)
    assert "does not know the e-mail's key any more" in forgotten.last_reply
    assert "do not name the relay first any more" in gone.last_reply
    assert len(first.keys) == 2


def late_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set this host's clock three hours back."""
    right = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: right() - timedelta(hours=3))


def test_a_wrong_clock_of_a_mailer_asks_no_relay_that_has_forgotten_the_key(
    use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's clock decides; the relay would send the e-mail twice."""
    first = Fake("first", lose_first, timedelta(hours=1))
    use(first)
    asked, silent = ship(), ship()
    runner.send_due(limit=1)
    leases.begin(leases.claim(1, uuid4())[0], "first", timedelta(hours=1))
    Email.objects.update(next_attempt_at=Now(), ask_until=Now())
    Email.objects.filter(pk=silent.pk).update(sending_since=Now() - timedelta(hours=2))
    late_clock(monkeypatch)
    assert runner.send_due().unknown == 2
    assert (state(asked)[0], state(silent)[0]) == (EmailState.UNKNOWN, EmailState.UNKNOWN)
    assert len(first.keys) == 1


def test_a_mailer_that_stood_still_until_the_key_was_forgotten_does_not_begin() -> None:
    """Though no other mailer has taken the e-mail meanwhile."""
    ship()
    (claimed,) = leases.claim(1, uuid4())
    Email.objects.update(ask_until=Now())
    with pytest.raises(leases.ClaimLost):
        leases.begin(claimed, "first", timedelta(hours=1))


@pytest.mark.parametrize("act", [Act.RESEND, Act.GIVE_UP])
def test_an_acceptance_that_comes_late_is_never_thrown_away(act: Act, use: Callable[..., None]) -> None:
    """Whatever an operator has ordered meanwhile: the e-mail does not go a second time."""
    fake = Fake("first", accept)
    use(fake)
    email = ship()
    (claimed,) = leases.claim(10, uuid4())
    leases.begin(claimed, "first", None)
    Email.objects.update(sending_since=Now() - timedelta(days=1))
    leases.end_silent()
    resolving.resolve(email.pk, act, "kim", "It seems lost")
    assert leases.record(claimed, outcomes.accepted(Accepted("250 OK")))
    assert runner.send_due().sent == 0
    assert (state(email)[0], email.last_reply, fake.keys) == (EmailState.SENT, "250 OK", [])


@pytest.mark.parametrize("second", [lose, refuse_us, accept])
def test_nor_is_one_that_comes_while_another_worker_sends_it_again(
    second: Callable[[int], Accepted], use: Callable[..., None]
) -> None:
    """Whatever the outcome of that is, the e-mail is `sent`."""
    email = ship()
    (first,) = leases.claim(10, uuid4())
    leases.begin(first, "first", None)
    Email.objects.update(sending_since=Now() - timedelta(days=1))
    leases.end_silent()
    resolving.resolve(email.pk, Act.RESEND, "kim", "It seems lost")

    def meanwhile(number: int) -> Accepted:
        assert leases.record(first, outcomes.accepted(Accepted("250 the first")))
        return second(number)

    use(Fake("first", meanwhile))
    runner.send_due()
    assert (state(email)[0], email.last_reply) == (EmailState.SENT, "250 the first")


def test_nor_is_it_when_that_worker_dies() -> None:
    """What is known to have been accepted is not called unknown: an operator might send it a third time."""
    email = ship()
    (first,) = leases.claim(10, uuid4())
    leases.begin(first, "first", None)
    Email.objects.update(sending_since=Now() - timedelta(days=1))
    leases.end_silent()
    resolving.resolve(email.pk, Act.RESEND, "kim", "It seems lost")
    leases.begin(leases.claim(10, uuid4())[0], "first", None)
    assert leases.record(first, outcomes.accepted(Accepted("250 the first")))
    Email.objects.update(sending_since=Now() - timedelta(days=1))
    assert leases.end_silent() == 0
    assert (state(email)[0], email.last_reply) == (EmailState.SENT, "250 the first")


def test_whose_address_is_suppressed_is_not_written_to(use: Callable[..., None]) -> None:
    """Whatever the case of its letters; the e-mail says why, and others are sent."""
    fake = Fake("first", accept)
    use(fake)
    email, other = ship(), ship()
    assert suppress(email.recipient.upper(), "5.1.1 no such user")
    assert not suppress(email.recipient, "once more")
    report = runner.send_due()
    assert (report.suppressed, report.sent) == (1, 1)
    assert (state(email), state(other)) == ((EmailState.SUPPRESSED, 0), (EmailState.SENT, 1))
    assert email.last_reply == "The recipient is on the suppression list: 5.1.1 no such user"
    Suppression.objects.all().delete()
    resolving.resolve(email.pk, Act.RESEND, "kim", "The address works again")
    assert runner.send_due().sent == 1
