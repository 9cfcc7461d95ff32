"""A relay that refuses e-mails for good in words that Weir does not know: one odd e-mail fails, and no other."""

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, NoReturn

import pytest
from django.db.models import Value
from django.db.models.functions import Concat, Now
from django.utils import timezone
from pytest_django import Settings

from tests.integration.mail.shipments import MARKS, ConnectedTransport, scripted_server, ship, state, use
from tests.integration.mail.test_refusing_relay import BATCH, GO_AHEAD, HELLO, MANY, OK, shipped
from tests.integration.mail.test_sending import due_again
from tests.waiting import wait_for
from weir.workers.mail import kinds, resolving
from weir.workers.mail.message import Message
from weir.workers.mail.models import Act, Email, RelayHold
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import refusals, runner, source
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.base import Accepted, RelayRefuses, Transport, Unreachable
from weir.workers.mail.transports.relays import Relay

pytestmark = MARKS
ODD = b"550 5.0.0 The moon is not full\r\n"
BYE = b"221 Bye\r\n"


class Odd(ConnectedTransport):
    """A relay that refuses, in odd words, e-mails to `bad`; `asked` has the recipients that it was asked about."""

    is_connected = False
    bad: ClassVar[tuple[str, ...]] = ("bad",)
    after_dot = False
    asked: ClassVar[list[str]] = []

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        if self.after_dot:
            begin()
        self.asked.append(message.recipient)
        if message.recipient.startswith(self.bad):
            raise RelayRefuses("550 The moon is not full", knows_recipient=True, is_doubtful=True)
        if not self.after_dot:
            begin()
        return Accepted("250 OK")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Use an odd relay, with short pauses and small batches; return the recipients that it was asked about."""
    monkeypatch.setattr(source, "BATCH", BATCH)
    monkeypatch.setattr(refusals, "PAUSE_S", 0.2)
    monkeypatch.setattr(refusals, "LONGEST_PAUSE_S", 0.4)
    monkeypatch.setattr(Odd, "asked", [])
    monkeypatch.setattr(Odd, "bad", ("bad",))
    use(monkeypatch, Odd)
    return Odd.asked


def send(rounds: int) -> None:
    """Send this many times, each time all that waits; a round ends though e-mails that it put off are due again."""
    for _ in range(rounds):
        due_again()
        runner.send_due(at_most_s=2.0)


def states() -> set[tuple[str, int]]:
    """Return the states of all e-mails, each with its attempts."""
    return set(Email.objects.values_list("state", "attempts"))


@pytest.mark.parametrize("step", [[OK], [OK, OK], GO_AHEAD], ids=["RCPT", "DATA", "dot"])
def test_one_odd_email_fails_when_it_is_refused_again_and_holds_up_nobody(
    settings: Settings, step: list[bytes]
) -> None:
    """It waits for a minute; operators see no relay that is held."""
    bad, other = ship(), ship()
    refused = [*step, ODD, OK]  # to RSET
    with scripted_server(settings, [*HELLO, *refused, *GO_AHEAD, OK, BYE], [*HELLO, *refused, BYE]):
        report = runner.send_due()
        assert (report.sent, report.failed, report.stopped_because) == (1, 0, "")
        assert [state(bad), state(other)] == [(EmailState.PENDING, 1), (EmailState.SENT, 1)]
        assert 50 < (bad.next_attempt_at - timezone.now()).total_seconds() <= 120
        Email.objects.filter(pk=bad.pk).update(next_attempt_at=Now())
        report = runner.send_due()
    assert (report.failed, report.stopped_because) == (1, "")
    assert state(bad) == (EmailState.FAILED, 2)
    assert bad.last_reply == "550 5.0.0 The moon is not full"
    assert bad.phase == (Phase.AFTER_DOT if step is GO_AHEAD else Phase.NOT_BEGUN)
    assert not RelayHold.objects.exists()


def all_are_sent() -> bool:
    """Send all that waits, and return whether nothing is left."""
    send(1)
    return {state for state, _ in states()} == {EmailState.SENT}


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("recipient", "number", "after_dot"),
    [("bad{}@in.example", MANY, False), ("bad{}@d{}.example", MANY, False), ("bad{}@d{}.example", MANY, True)],
    ids=["one domain", "many domains", "after the dot"],
)
def test_a_relay_that_refuses_all_in_odd_words_costs_no_email(
    monkeypatch: pytest.MonkeyPatch, recipient: str, number: int, *, after_dot: bool
) -> None:
    """It is held with its reply, and when it takes e-mails again all are sent."""
    monkeypatch.setattr(Odd, "after_dot", after_dot)
    shipped([recipient.format(each, each) for each in range(number)])
    send(4)
    assert {state for state, _ in states()} == {EmailState.PENDING}
    assert Email.objects.filter(attempts__gt=0).count() <= refusals.FEW - 1
    assert RelayHold.objects.get().reason == "It refuses us, or these e-mails: 550 The moon is not full"
    monkeypatch.setattr(Odd, "bad", ("nobody",))
    wait_for(all_are_sent, 120, "all e-mails")
    assert not RelayHold.objects.exists()


def test_a_whole_domain_that_the_relay_does_not_take_fails_in_the_end(settings: Settings, asked: list[str]) -> None:
    """While it takes others: each is asked about few times, and no other waits behind them."""
    settings.WEIR_MAIL_MAX_ATTEMPTS = 3
    shipped([f"bad{number}@out.example" for number in range(8)])
    Email.objects.update(key=Concat(Value("bad "), "key"))  # not the key of an order
    goods: list[Email] = []

    def have_ended() -> bool:
        goods.append(ship())
        Email.objects.filter(pk=goods[-1].pk).update(recipient=f"good{len(goods)}@in.example", priority=9)
        send(1)
        assert state(goods[-1])[0] == EmailState.SENT, goods[-1].last_reply
        return not Email.objects.filter(state=EmailState.PENDING).exists()

    wait_for(have_ended, 60, "the end of all")
    assert Email.objects.filter(state=EmailState.FAILED).count() == 8
    assert len([recipient for recipient in asked if recipient.startswith("bad")]) <= 3 * 8 + refusals.FEW


def test_one_that_is_sent_again_has_all_attempts_ahead_of_it(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    """Refusals before the cause was corrected are no longer counted against it."""
    bad = Email.objects.get(pk=shipped(["bad@in.example"])[0])

    def has_failed() -> bool:
        ship()
        send(1)
        return state(bad)[0] == EmailState.FAILED

    wait_for(has_failed, 60, "the end of the odd one")
    del asked[:]
    resolving.resolve(bad.pk, Act.RESEND, "Ada", "The server knows us now.")

    def is_asked_again() -> bool:
        send(1)
        return bool(asked)

    wait_for(is_asked_again, 60, "another attempt")
    assert state(bad) == (EmailState.PENDING, 1)
    monkeypatch.setattr(Odd, "bad", ("nobody",))
    wait_for(all_are_sent, 60, "all e-mails")
    assert state(bad) == (EmailState.SENT, 2)
    assert asked.count("bad@in.example") == 2


def test_an_email_that_is_refused_alone_is_not_asked_about_for_ever(settings: Settings, asked: list[str]) -> None:
    """It is not known whether the relay takes others: each refusal is an attempt."""
    settings.WEIR_MAIL_MAX_ATTEMPTS = 4
    bad = ship("bad")

    def has_failed() -> bool:
        due_again()
        assert runner.send_due(at_most_s=2.0).stopped_because == ""
        return state(bad)[0] == EmailState.FAILED

    wait_for(has_failed, 60, "the end")
    assert (state(bad), len(asked)) == ((EmailState.FAILED, 4), 4)
    assert bad.last_reply == "Given up after 4 attempts: 550 The moon is not full"


@pytest.mark.usefixtures("asked")
def test_a_team_that_sends_one_email_an_hour_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its relay refuses all for hours: the third e-mail shows that it is the relay, before the first has failed."""
    monkeypatch.setattr(Odd, "bad", ("",))
    for _ in range(8):
        ship()
        send(7)  # after a minute each, and then longer and longer
    assert {state for state, _ in states()} == {EmailState.PENDING}
    assert RelayHold.objects.exists()
    monkeypatch.setattr(Odd, "bad", ("nobody",))
    wait_for(all_are_sent, 120, "all e-mails")


def two(monkeypatch: pytest.MonkeyPatch, first: Callable[[], Transport], second: Callable[[], Transport]) -> None:
    """Make the settings name two relays."""
    made = tuple(
        Relay(name=name, key_lifetime=None, place="", is_smtp=True, _make=transport)
        for name, transport in (("first", first), ("second", second))
    )
    monkeypatch.setattr(relays, "relays", lambda: made)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("after_dot", [False, True])
def test_what_the_first_relay_refuses_in_odd_words_goes_by_the_second(
    monkeypatch: pytest.MonkeyPatch, after_dot: bool
) -> None:
    """After the first one was asked about a few, if it refuses them only after the content."""
    monkeypatch.setattr(refusals, "PAUSE_S", 1.0)
    monkeypatch.setattr(refusals, "LONGEST_PAUSE_S", 2.0)
    monkeypatch.setattr(Odd, "after_dot", after_dot)

    class Good(Odd):
        bad = ("nobody",)

    two(monkeypatch, Odd, Good)
    shipped([f"bad{number}@d{number}.example" for number in range(20)])
    wait_for(all_are_sent, 120, "all e-mails")
    assert {hold.relay for hold in RelayHold.objects.all()} == {"first"}


@pytest.mark.usefixtures("asked")
def test_what_both_relays_refuse_fails_when_both_have_accepted_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Second(Odd):
        bad = ("bad",)

    class First(Odd):
        bad = ("bad", "second")

    # Both are asked in each try: their pauses end together.
    monkeypatch.setattr(refusals, "PAUSE_S", 0.001)
    monkeypatch.setattr(refusals, "LONGEST_PAUSE_S", 0.001)
    two(monkeypatch, First, Second)
    bad = ship("bad")
    ship()

    def was_asked_twice() -> bool:
        send(1)
        return state(bad)[1] == 2

    wait_for(was_asked_twice, 60, "the second attempt")
    assert bad.state == EmailState.PENDING  # the second has not accepted another
    Email.objects.filter(pk=ship("second").pk).update(recipient="second@in.example")

    def has_failed() -> bool:
        send(1)
        return state(bad)[0] == EmailState.FAILED

    wait_for(has_failed, 60, "the end")
    assert bad.attempts <= 5


@pytest.mark.usefixtures("asked")
def test_what_both_relays_refuse_is_not_asked_about_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if their pauses end at different times, so that each try asks only one of them."""
    two(monkeypatch, Odd, Odd)
    bad = ship("bad")
    ship()

    def has_failed() -> bool:
        send(1)
        return state(bad)[0] == EmailState.FAILED

    wait_for(has_failed, 120, "the end")
    assert bad.last_reply.endswith("550 The moon is not full")


class Away(ConnectedTransport):
    """A relay that cannot be reached."""

    is_connected = False

    def connect(self) -> NoReturn:
        raise Unreachable("Nobody is there")

    def submit(self, message: Message, begin: Callable[[], None]) -> NoReturn:
        raise NotImplementedError


@pytest.mark.usefixtures("asked")
def test_what_one_relay_refuses_and_another_may_take_is_not_asked_about_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits for the other one, at no attempt's cost."""
    two(monkeypatch, Odd, Away)
    bad = ship("bad")
    ship()
    for _ in range(3):
        send(1)
        ship()
    assert state(bad) == (EmailState.PENDING, 0)
    assert (bad.next_attempt_at - timezone.now()).total_seconds() > 50


class RefusesUs(Odd):
    """A relay that says that it refuses us."""

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        if message.recipient.startswith("bad"):
            raise RelayRefuses("554 5.7.1 Access denied", knows_recipient=True)
        begin()
        return Accepted("250 OK")


@pytest.mark.usefixtures("asked")
def test_an_email_is_to_blame_also_where_another_was_accepted_before_it_was_due_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If little is sent, no other e-mail is accepted between the moment when it is due and its next try."""
    use(monkeypatch, RefusesUs)
    bad = ship("bad")
    runner.send_due()
    ship()
    Email.objects.filter(pk=bad.pk).update(next_attempt_at=Now() + timedelta(hours=1))
    assert runner.send_due().sent == 1
    due_again()
    runner.send_due()
    assert state(bad) == (EmailState.PENDING, 1)


@pytest.mark.usefixtures("asked")
def test_operators_see_a_kind_whose_sender_is_refused_though_others_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfOneSender(Odd):
        def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
            if message.recipient.startswith("bad"):
                raise RelayRefuses("553 5.7.1 Sender address rejected", knows_sender=True)
            begin()
            return Accepted("250 OK")

    use(monkeypatch, OfOneSender)
    monkeypatch.setattr(refusals, "PAUSE_S", 0.0)
    bad, good = ship("bad"), ship()
    monkeypatch.setitem(kinds._kinds, "another", kinds.get(good.kind))
    Email.objects.filter(pk=good.pk).update(kind="another")
    runner.send_due()
    assert [state(bad)[0], state(good)[0]] == [EmailState.PENDING, EmailState.SENT]
    said = "It refuses e-mails of the kind order.shipped: 553 5.7.1 Sender address rejected"
    assert RelayHold.objects.get().reason == said
