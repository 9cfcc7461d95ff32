"""Recipients' domains that take no more for now, or no more than so many."""

from itertools import pairwise

import pytest
from django.conf import LazySettings

from demo.fakes.mail_server import MailServer
from ratelimit import site_settings
from ratelimit.models import Site
from tests.integration.mail.shipments import MARKS, ConnectedTransport, ship, state, use
from workers.mail.message import Message
from workers.mail.models import Email
from workers.mail.phases import Phase, State
from workers.mail.sending import runner
from workers.mail.transports.base import Accepted, Refused

pytestmark = MARKS


def shipped_to(*domains: str) -> list[Email]:
    """Ship an order to somebody at each of these domains."""
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
    assert (state(first), state(later)) == ((State.PENDING, 1), (State.PENDING, 0))
    assert "busy.example:25 is" in later.last_reply
    assert later.next_attempt_at > first.created_at
    assert {state(email) for email in (*others, another)} == {(State.SENT, 1)}
    assert Site.objects.get(name="busy.example:25").backed_off_until is not None


def test_a_domain_gets_no_more_than_its_rate(mail: MailServer, settings: LazySettings) -> None:
    """By the mail server's own list; an e-mail whose turn is far away comes back then."""
    settings.WEIR_MAIL_DOMAIN_RATE = "10/s"
    emails = shipped_to(*["slow.example"] * 5)
    before = len(mail.events())
    while any(state(email)[0] != State.SENT for email in emails):
        Email.objects.filter(state=State.PENDING).update(next_attempt_at=emails[0].created_at)
        runner.send_due()
    began = [event.at_ns for event in mail.events()[before:] if event.event == "began"]
    assert len(began) == len(emails)
    assert min(later - earlier for earlier, later in pairwise(began)) >= 0.095e9
    assert {state(email)[1] for email in emails} == {1}


@pytest.mark.parametrize("domain", ["Quiet.example", "mail.quiet.example"])
def test_a_domain_can_be_paused_by_hand(domain: str) -> None:
    """As any site, with its subdomains; the relay and its other e-mails go on."""
    site_settings.set_rate("quiet.example:25", "1/s", covers_subdomains=True)
    site_settings.pause("quiet.example:25")
    quiet, other = shipped_to(domain, "loud.example")
    assert runner.send_due().sent == 1
    assert (state(quiet), state(other)) == ((State.PENDING, 0), (State.SENT, 1))
    assert "paused" in quiet.last_reply
