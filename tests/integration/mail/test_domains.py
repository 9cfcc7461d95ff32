"""Recipients' domains that take no more e-mails for now, or only at a rate."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from django.db.models.functions import Now
from pytest_django import Settings
from structlog.testing import capture_logs

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import MARKS, ConnectedTransport, ship, state, use
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import domains, runner
from weir.workers.mail.transports.base import Accepted, Refused

pytestmark = MARKS


@pytest.fixture(autouse=True)
def _no_domain_was_backed_off() -> None:
    """Forget the domains that tests before have backed off in this process."""
    domains._backed_off.clear()


def shipped_to(*domains: str) -> list[Email]:
    """Ship an order to a customer at each of these domains."""
    emails = [ship() for _ in domains]
    for email, domain in zip(emails, domains, strict=True):
        Email.objects.filter(pk=email.pk).update(recipient=f"plain.{email.pk}@{domain}")
    return emails


def test_a_domain_that_takes_no_more_is_left_alone_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """One e-mail is refused; those that follow it to the same domain wait without an attempt."""
    asked: list[str] = []

    class Busy(ConnectedTransport):
        def submit(self, message: Message, begin: object) -> Accepted:
            asked.append(message.recipient.rpartition("@")[2])
            if asked[-1] == "busy.example":
                raise Refused("450 4.7.1 Too many", Phase.NOT_BEGUN, is_permanent=False, slows_domain=True)
            begin()  # type: ignore[operator]  # it can be called
            return Accepted("250 OK")

    use(monkeypatch, Busy)
    first, *others = shipped_to("busy.example", "other.example")
    runner.send_due()
    later, another = shipped_to("busy.example", "other.example")
    runner.send_due()
    assert asked.count("busy.example") == 1
    assert (state(first), state(later)) == ((EmailState.PENDING, 1), (EmailState.PENDING, 0))
    assert "busy.example:25 is" in later.last_reply
    assert later.next_attempt_at > first.created_at
    assert {state(email) for email in (*others, another)} == {(EmailState.SENT, 1)}
    assert Site.objects.get(name="busy.example:25").backed_off_until is not None


@pytest.mark.parametrize("phase", [Phase.NOT_BEGUN, Phase.AFTER_DOT])
def test_of_a_batch_one_email_is_refused_and_the_others_wait(monkeypatch: pytest.MonkeyPatch, phase: Phase) -> None:
    """They were claimed before the domain was backed off. Each would be an attempt poorer, and transmitted in vain."""
    asked: list[str] = []

    class Busy(ConnectedTransport):
        def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
            asked.append(message.recipient.rpartition("@")[2])
            begin()
            if asked[-1] == "busy.example":
                raise Refused("452 4.7.28 Too many", phase, is_permanent=False, slows_domain=True)
            return Accepted("250 OK")

    use(monkeypatch, Busy)
    emails = shipped_to(*["busy.example"] * 5, "other.example")
    runner.send_due()
    assert asked == ["busy.example", "other.example"]
    assert sorted(state(email) for email in emails) == [(EmailState.PENDING, 0)] * 4 + [
        (EmailState.PENDING, 1),
        (EmailState.SENT, 1),
    ]


def test_a_domain_recovers_by_itself() -> None:
    """If no person has set its rate, and it has refused nothing for RECOVERED_AFTER; purge may delete its site."""
    recipient = "kim@busy.example"
    domains.back_off(recipient)
    sites = Site.objects.filter(name="busy.example:25")
    assert not sites.get().is_kept
    for age, is_paced in ((timedelta(0), True), (domains.RECOVERED_AFTER - timedelta(minutes=1), True)):
        sites.update(backed_off_until=Now() - age)
        assert bool(domains.paced([recipient])) is is_paced
    sites.update(backed_off_until=Now() - domains.RECOVERED_AFTER)
    assert domains.paced([recipient]) == {}
    domains.back_off(recipient)
    assert domains.paced([recipient]) == {recipient: "busy.example:25"}
    sites.update(backed_off_until=Now() - domains.RECOVERED_AFTER)
    site_settings.set_rate("busy.example:25", "1/s")
    assert domains.paced([recipient]) == {recipient: "busy.example:25"}, "a person has set it"


def test_a_domain_gets_no_more_than_its_rate(mail: MailServer, settings: Settings) -> None:
    """By the mail server's own list; an e-mail whose turn is far away comes back then."""
    settings.WEIR_MAIL_DOMAIN_RATE = "10/s"
    emails = shipped_to(*["slow.example"] * 5)
    before = len(mail.events())
    while any(state(email)[0] != EmailState.SENT for email in emails):
        Email.objects.filter(state=EmailState.PENDING).update(next_attempt_at=emails[0].created_at)
        runner.send_due()
    began = [event.at_ns for event in mail.events()[before:] if event.event == "began"]
    assert len(began) == len(emails)
    assert min(later - earlier for earlier, later in pairwise(began)) >= 0.095e9
    assert {state(email)[1] for email in emails} == {1}


@pytest.mark.parametrize("domain", ["Quiet.example", "mail.quiet.example"])
def test_a_domain_can_be_paused_by_hand(domain: str) -> None:
    """Like any site, with its subdomains; the relay and its other e-mails go on."""
    site_settings.set_rate("quiet.example:25", "1/s", covers_subdomains=True)
    site_settings.pause("quiet.example:25")
    quiet, other = shipped_to(domain, "loud.example")
    assert runner.send_due().sent == 1
    assert (state(quiet), state(other)) == ((EmailState.PENDING, 0), (EmailState.SENT, 1))
    assert "paused" in quiet.last_reply


@pytest.mark.parametrize(("of_settings", "rate"), [("", "1/s"), ("10/m", "10/m")])
def test_a_domain_that_has_refused_gets_a_rate_and_waits_longer_each_time(
    of_settings: str, rate: str, settings: Settings
) -> None:
    """By the settings, or as large providers want it; with others to the same domain, however that is written."""
    settings.WEIR_MAIL_DOMAIN_RATE = of_settings
    sites = Site.objects.filter(name="busy.example:25")
    with capture_logs() as logged:
        domains.back_off("kim@busy.example")
        sites.update(backed_off_until=Now())
        domains.back_off("jo@BUSY.example")
    first_s, second_s = [line["seconds"] for line in logged if line["event"] == "domain_backed_off"]
    assert first_s < 8 < second_s
    assert sites.get().rate == rate
    assert Site.objects.count() == 1


def test_the_rate_that_somebody_has_set_for_a_domain_stays(settings: Settings) -> None:
    """The settings and refusals do not change it; other domains get the rate of the settings."""
    settings.WEIR_MAIL_DOMAIN_RATE = "10/s"
    site_settings.set_rate("slow.example:25", "1/m")
    found = domains.paced(["kim@slow.example", "kim@other.example"])
    assert found == {"kim@slow.example": "slow.example:25", "kim@other.example": "other.example:25"}
    domains.back_off("kim@slow.example")
    assert {site.name: site.rate for site in Site.objects.all()} == {
        "slow.example:25": "1/m",
        "other.example:25": "10/s",
    }


def test_a_domain_whose_row_is_locked_is_backed_off_by_the_next_refusal(
    other_connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender does not fail."""
    monkeypatch.setattr(domains, "PATIENCE_S", 0.05)
    site_settings.set_rate("busy.example:25", "1/s")
    other_connection.execute("SELECT FROM weir_ratelimit_site WHERE name = 'busy.example:25' FOR UPDATE")
    domains.back_off("kim@busy.example")
    assert Site.objects.get().backed_off_until is None
    other_connection.rollback()
    domains.back_off("kim@busy.example")
    assert Site.objects.get().backed_off_until is not None


def test_an_address_whose_domain_cannot_be_a_site_is_not_paced(settings: Settings) -> None:
    """Its e-mail is sent all the same."""
    settings.WEIR_MAIL_DOMAIN_RATE = "1/s"
    recipient = "kim@[IPv6:::1]"
    assert domains.paced([recipient]) == {}
    domains.back_off(recipient)
    assert not Site.objects.exists()
    (email,) = shipped_to("[IPv6:::1]")
    assert runner.send_due().sent == 1
    assert state(email) == (EmailState.SENT, 1)
