"""send_due within bounds: a number, a time, the mail server's rate."""

from itertools import pairwise

import pytest
from django.conf import LazySettings

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import MARKS, ship, state
from workers.mail.phases import State
from workers.mail.sending import runner, sender

pytestmark = MARKS


def test_no_more_are_taken_than_asked_for() -> None:
    """The oldest ones; a limit of none is refused."""
    emails = [ship() for _ in range(3)]
    assert runner.send_due(limit=2).sent == 2
    assert [state(email)[0] for email in emails] == [State.SENT, State.SENT, State.PENDING]
    with pytest.raises(ValueError, match="at least 1"):
        runner.send_due(limit=0)


def test_who_runs_out_of_time_leaves_the_rest_to_others() -> None:
    """Also what is claimed already, and says so."""
    emails = [ship("late-200") for _ in range(5)]
    report = runner.send_due(at_most_s=0.3)
    assert report.is_out_of_time
    assert report.sent + report.given_back == len(emails)
    assert report.given_back > 0
    report = runner.send_due(at_most_s=60.0)
    assert not report.is_out_of_time
    assert {state(email) for email in emails} == {(State.SENT, 1)}


def test_emails_leave_no_faster_than_the_mail_servers_rate(mail: MailServer, settings: LazySettings) -> None:
    """By the server's own list, however many send."""
    settings.WEIR_MAIL_RATE = "2/s"
    sender.site.cache_clear()
    emails = [ship() for _ in range(4)]
    before = len(mail.events())
    runner.send_due()
    assert {state(email)[0] for email in emails} == {State.SENT}
    began = [event.at_ns for event in mail.events()[before:] if event.event == "began"]
    assert len(began) == len(emails)
    assert min(later - earlier for earlier, later in pairwise(began)) >= 0.475e9


def test_an_email_whose_turn_is_far_away_is_given_back(settings: LazySettings) -> None:
    """Nobody sits on it meanwhile."""
    settings.WEIR_MAIL_RATE = "1/min"
    sender.site.cache_clear()
    emails = [ship(), ship(), ship()]
    report = runner.send_due()
    assert (report.sent, report.given_back) == (1, 1)  # and one was never claimed
    assert "away" in report.stopped_because
    assert [state(email) for email in emails] == [(State.SENT, 1), (State.PENDING, 0), (State.PENDING, 0)]
