"""send_due within limits: a number, a time, the mail server's rate."""

import time
from collections.abc import Callable
from itertools import pairwise
from threading import Lock

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import MARKS, ConnectedTransport, scripted_server, ship, state, use
from tests.waiting import in_time, wait_for
from weir.ratelimit.models import Slot
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import policy, routes, runner, sender
from weir.workers.mail.transports.base import Accepted

pytestmark = MARKS
OK = b"250 OK\r\n"


def test_no_more_are_taken_than_asked_for() -> None:
    """The oldest ones; a limit of none is refused."""
    emails = [ship() for _ in range(3)]
    assert runner.send_due(limit=2).sent == 2
    assert [state(email)[0] for email in emails] == [EmailState.SENT, EmailState.SENT, EmailState.PENDING]
    with pytest.raises(ValueError, match="at least 1"):
        runner.send_due(limit=0)


def test_who_runs_out_of_time_leaves_the_rest_to_others() -> None:
    """Even what it has claimed already; the report says so."""
    emails = [ship("late-200") for _ in range(5)]
    report = runner.send_due(at_most_s=0.3)
    assert report.is_out_of_time
    assert report.sent + report.given_back == len(emails)
    assert report.given_back > 0
    report = runner.send_due(at_most_s=60.0)
    assert not report.is_out_of_time
    assert {state(email) for email in emails} == {(EmailState.SENT, 1)}


def test_emails_leave_no_faster_than_the_mail_servers_rate(mail: MailServer, settings: Settings) -> None:
    """By the server's own list, however many processes send."""
    settings.WEIR_MAIL_RATE = "2/s"
    routes.site.cache_clear()
    emails = [ship() for _ in range(4)]
    before = len(mail.events())
    runner.send_due()
    assert {state(email)[0] for email in emails} == {EmailState.SENT}
    began = [event.at_ns for event in mail.events()[before:] if event.event == "began"]
    assert len(began) == len(emails)
    assert min(later - earlier for earlier, later in pairwise(began)) >= 0.475e9


def test_an_email_whose_turn_is_far_away_is_given_back(settings: Settings) -> None:
    """No mailer keeps it claimed meanwhile."""
    settings.WEIR_MAIL_RATE = "1/min"
    routes.site.cache_clear()
    emails = [ship(), ship(), ship()]
    report = runner.send_due()
    assert (report.sent, report.given_back) == (1, 1)  # and one was never claimed
    assert "away" in report.stopped_because
    assert [state(email) for email in emails] == [
        (EmailState.SENT, 1),
        (EmailState.PENDING, 0),
        (EmailState.PENDING, 0),
    ]


def test_a_connection_that_has_waited_long_for_a_turn_is_replaced(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers end connections that idle, with a reply that may look as if they refused us."""
    monkeypatch.setattr(routes, "LONGEST_IDLE_S", 0.5)  # on a busy machine, the first turn may take a while, too
    settings.WEIR_MAIL_RATE = "1/s"
    routes.site.cache_clear()
    emails = [ship(), ship()]
    one = [b"220 mail.example\r\n", b"250 mail.example\r\n", OK, OK, b"354 Go ahead\r\n", OK]
    with scripted_server(settings, [*one, b"451 4.4.2 Timeout waiting for data\r\n"], [*one, b"221 Bye\r\n"]) as heard:
        runner.send_due()
    in_time(heard[1].startswith(b"mail"), "the first turn, before the connection had idled")
    assert [state(email) for email in emails] == [(EmailState.SENT, 1)] * 2
    assert [line.split()[0] for line in heard if line[:4] in (b"quit", b"QUIT", b"ehlo")].count(b"ehlo") == 2


@pytest.mark.parametrize("paced", ["relay", "domain"])
def test_opening_a_connection_brings_no_two_emails_closer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, paced: str
) -> None:
    """The first e-mail would begin later in its slot than the next one, over the same connection."""
    settings.WEIR_MAIL_RATE, settings.WEIR_MAIL_DOMAIN_RATE = ("5/s", "") if paced == "relay" else ("", "5/s")
    routes.site.cache_clear()
    began: list[float] = []

    class Slow(ConnectedTransport):
        is_connected = False

        def connect(self) -> None:
            time.sleep(0.15)
            self.is_connected = True

        def submit(self, _message: Message, begin: Callable[[], None]) -> Accepted:
            began.append(time.monotonic())
            begin()
            return Accepted("250 OK")

    use(monkeypatch, Slow, place="mail.example:25")
    emails = [ship(), ship()]
    while any(state(email)[0] != EmailState.SENT for email in emails):
        Email.objects.filter(state=EmailState.PENDING).update(next_attempt_at=emails[0].created_at)
        runner.send_due()
    first, second = began
    assert second - first > 0.19


def test_a_turn_that_is_far_away_is_waited_for_before_the_connection_is_opened(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers end connections that idle."""
    monkeypatch.setattr(routes, "LONGEST_IDLE_S", 0.0)
    settings.WEIR_MAIL_RATE = "2/s"
    routes.site.cache_clear()
    connected: list[int] = []

    class Slow(ConnectedTransport):
        is_connected = False

        def connect(self) -> None:
            connected.append(Slot.objects.filter(start_time__lte=Now()).count())  # those whose turn has come

        def submit(self, _message: Message, begin: Callable[[], None]) -> Accepted:
            begin()
            return Accepted("250 OK")

    use(monkeypatch, Slow, place="mail.example:25")
    for _ in range(3):
        ship()
    assert runner.send_due().sent == 3
    assert len(connected) == 3
    assert all(turns >= number for number, turns in enumerate(connected, start=1)), connected


def test_a_process_transmits_few_large_emails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the relay is: each takes a few times its size in memory. Small ones go on, over ten connections."""
    monkeypatch.setattr(sender, "PATIENCE_S", 0.01)
    monkeypatch.setattr(runner, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(policy, "MOST_IN_HAND", 100_000)
    at_once, most, looks, lock = 0, 0, 0, Lock()
    decide = policy.another_sender

    def look(seen: policy.Situation) -> policy.Another:
        nonlocal looks
        looks += 1
        return decide(seen)

    class Slow(ConnectedTransport):
        def submit(self, _message: Message, begin: Callable[[], None]) -> Accepted:
            nonlocal at_once, most
            begin()
            with lock:
                at_once += 1
                most = max(most, at_once)
            until = looks + 5  # each look may begin another sender
            wait_for(lambda: looks >= until, 60, "the round to look", every_s=0.005)
            with lock:
                at_once -= 1
            return Accepted("250 OK")

    monkeypatch.setattr(policy, "another_sender", look)
    use(monkeypatch, Slow)
    for size, expected in ((60_000, range(1, 3)), (100, range(3, 11))):
        most, emails = 0, [ship() for _ in range(8)]
        Email.objects.filter(state=EmailState.PENDING).update(content_size=size)
        assert runner.send_due().sent == len(emails)
        assert most in expected, size
