"""Relays by kind: whatever one relay does, e-mails of the other one's kinds leave, and none by the wrong relay."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from io import StringIO
from itertools import count
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import Count
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from demo.fakes import mail_provider
from demo.fakes.mail_provider import MailProvider
from tests.integration.conftest import Eventually
from tests.integration.mail.shipments import MARKS, sending_meanwhile, state
from tests.integration.mail.stream_servers import Manner, StreamServer, dead_port, stream_server
from tests.waiting import in_time
from weir.conf.texts import kind_routes
from weir.ratelimit import site_settings
from weir.workers.mail import kinds, outbox
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email, RelayHold
from weir.workers.mail.phases import EmailState
from weir.workers.mail.reports import counts
from weir.workers.mail.reports.why import goes_by
from weir.workers.mail.sending import crews, leases, policy, refusals, routes, runner, source
from weir.workers.mail.sending.sender import Sender
from weir.workers.mail.sending.source import ClaimAllowance, Source
from weir.workers.mail.transports import relays

pytestmark = [*MARKS, pytest.mark.usefixtures("app_kinds")]
SOON_S = 10.0
_numbers = count(1)


@pytest.fixture
def app_kinds(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Register three kinds, as an app would, and let mailers wait long for a server that is silent."""
    settings.EMAIL_TIMEOUT = 50.0
    monkeypatch.setattr(kinds, "_kinds", {})
    for name in ("password.reset", "newsletter.weekly", "newsletter"):
        kinds.register(name)(lambda: Content(subject="Note", text="Hello"))


@pytest.fixture
def main() -> Iterator[StreamServer]:
    with stream_server() as server:
        yield server


@pytest.fixture
def bulk() -> Iterator[StreamServer]:
    with stream_server() as server:
        yield server


@pytest.fixture
def two_streams(main: StreamServer, bulk: StreamServer, settings: Settings) -> None:
    """Send newsletters by `bulk`, and everything else by `main`."""
    settings.WEIR_MAIL_RELAYS = [f"main=smtp://127.0.0.1:{main.port}", f"bulk=smtp://127.0.0.1:{bulk.port}"]
    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["bulk"], "*": ["main"]}


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the batches of claims small."""
    monkeypatch.setattr(source, "BATCH", 10)


def queue(kind: str, number: int = 1) -> list[Email]:
    keys = [str(next(_numbers)) for _ in range(number)]
    return [outbox.send_once(kind, key, to=f"plain.{key}@customers.example") for key in keys]


def resets(number: int = 1) -> list[Email]:
    return queue("password.reset", number)


def newsletters(number: int = 1) -> list[Email]:
    return queue("newsletter.weekly", number)


def ids(emails: list[Email]) -> list[str]:
    return sorted(email.message_id for email in emails)


def claimed_kinds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the kind of each claimed e-mail is added."""
    claimed: list[str] = []
    claim = leases.claim

    def noting(*arguments: object) -> list[Email]:
        found = claim(*arguments)  # type: ignore[arg-type]
        claimed.extend(email.kind for email in found)
        return found

    monkeypatch.setattr(leases, "claim", noting)
    return claimed


def due_now() -> None:
    Email.objects.filter(state=EmailState.PENDING).update(next_attempt_at=Now())


@pytest.mark.usefixtures("two_streams")
def test_each_kind_goes_by_its_own_relay(main: StreamServer, bulk: StreamServer) -> None:
    """In one round; a kind that only begins like a pattern does not match it."""
    by_main, by_bulk = [*resets(60), *queue("newsletter")], newsletters(60)
    report = runner.send_due()
    assert (report.sent, report.stopped_because) == (121, "")
    assert (sorted(main.accepted), sorted(bulk.accepted)) == (ids(by_main), ids(by_bulk))
    assert set(Email.objects.values_list("relay", flat=True)) == {f"main={main.name}", f"bulk={bulk.name}"}


@pytest.mark.parametrize("bad", ["dead", Manner.REFUSES, Manner.SILENT, Manner.SLOW, Manner.LOSES])
@pytest.mark.usefixtures("two_streams", "few_are_many")
def test_whatever_one_relay_does_the_others_emails_leave(
    bad: Manner | str, main: StreamServer, bulk: StreamServer, settings: Settings, eventually: Eventually
) -> None:
    """Both those that are due when the round begins, and those that come while one relay keeps it from ending."""
    if isinstance(bad, Manner):
        bulk.manner = bad
    else:
        settings.WEIR_MAIL_RELAYS = [settings.WEIR_MAIL_RELAYS[0], f"bulk=smtp://127.0.0.1:{dead_port()}"]
    many = newsletters(60)
    Email.objects.update(priority=5)  # the bad relay's e-mails are the first, in every way
    first = resets(20)
    with sending_meanwhile(), bulk.holding():
        eventually(lambda: len(main.accepted) == 20, "the first e-mails of the other relay", seconds=SOON_S)
        later = resets(20)
        if bad in {Manner.SILENT, Manner.SLOW}:  # the round goes on: no other process is there to send them
            eventually(lambda: len(main.accepted) == 40, "those that came later", seconds=SOON_S)
    runner.send_due()
    assert sorted(main.accepted) == ids([*first, *later])
    assert set(bulk.accepted) <= set(ids(many))
    assert len(set(bulk.accepted)) == len(bulk.accepted)
    assert {state(email) for email in (*first, *later)} == {(EmailState.SENT, 1)}


@pytest.mark.usefixtures("two_streams")
def test_a_round_leaves_nothing_of_a_stream_that_is_left_alone_claimed(
    bulk: StreamServer, main: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it claim any of the stream's: thousands would be claimed and given back in a loop."""
    [bulk_relay] = relays.of_kind("newsletter.weekly")
    newsletters(120)
    reset = resets()
    claimed = claimed_kinds(monkeypatch)
    for _ in range(3):  # last, because it is left alone for some seconds then
        routes.breaker(bulk_relay.name).failed(time.monotonic())
    report = runner.send_due()
    assert (report.sent, claimed) == (1, ["password.reset"])
    assert report.stopped_because.startswith(f"The mail server {bulk_relay.name} could not be reached lately")
    assert main.accepted == ids(reset)
    assert bulk.accepted == []


@pytest.mark.usefixtures("two_streams")
def test_a_relay_that_refuses_a_kind_is_held_and_the_others_are_not(main: StreamServer, bulk: StreamServer) -> None:
    bulk.manner = Manner.REFUSES
    held, sent = newsletters(5), resets(5)
    report = runner.send_due()
    assert (report.sent, RelayHold.objects.get().relay) == (5, f"bulk={bulk.name}")
    assert f"The mail server bulk={bulk.name} refuses us" in report.stopped_because
    assert {state(email) for email in sent} == {(EmailState.SENT, 1)}
    assert {state(email) for email in held} == {(EmailState.PENDING, 0)}
    assert sorted(main.accepted) == ids(sent)


def test_a_stream_that_stopped_is_tried_again_while_another_keeps_the_round_from_ending(
    bulk: StreamServer, settings: Settings, eventually: Eventually
) -> None:
    """The round may go on for ten minutes: one failed connection must not stop the stream for so long."""
    port = dead_port()
    settings.WEIR_MAIL_RELAYS = [f"main=smtp://127.0.0.1:{port}", f"bulk=smtp://127.0.0.1:{bulk.port}"]
    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["bulk"], "*": ["main"]}
    bulk.manner = Manner.SLOW
    newsletters()
    stopped = resets()
    with sending_meanwhile(), bulk.holding():
        eventually(RelayHold.objects.exists, "a connection that fails", seconds=SOON_S)
        with stream_server(port) as main:
            eventually(lambda: main.accepted == ids(stopped), "the e-mail that had to wait", seconds=30.0)


@pytest.mark.parametrize("first", ["dead", Manner.REFUSES])
def test_relays_of_a_route_are_used_in_its_order(
    first: Manner | str, main: StreamServer, bulk: StreamServer, settings: Settings
) -> None:
    """Other kinds go by `main`, and by `bulk` if that has certainly not accepted them; newsletters never by `main`."""
    port = main.port if isinstance(first, Manner) else dead_port()
    main.manner = Manner.REFUSES
    settings.WEIR_MAIL_RELAYS = [f"main=smtp://127.0.0.1:{port}", f"bulk=smtp://127.0.0.1:{bulk.port}"]
    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["bulk"], "*": ["main", "bulk"]}
    emails = [*resets(3), *newsletters(3)]
    runner.send_due()
    due_now()
    runner.send_due()
    assert (main.accepted, sorted(bulk.accepted)) == ([], ids(emails))


@pytest.mark.usefixtures("two_streams")
def test_what_waits_for_a_turn_that_is_far_away_is_left_to_others(
    main: StreamServer,
    bulk: StreamServer,
    settings: Settings,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While another stream keeps the round from ending: otherwise it would come to hold all that is due."""
    monkeypatch.setattr(crews, "RESUMES_AFTER_S", 0.1)
    settings.WEIR_MAIL_RATE = "100/s"
    bulk.manner = Manner.SLOW
    waiting = resets(3)
    newsletters()
    site_settings.set_rate(main.name, "100/s")
    site_settings.pause(main.name)
    claimed = claimed_kinds(monkeypatch)
    with sending_meanwhile(), bulk.holding():
        eventually(lambda: claimed.count("password.reset") > 2, "some looks", seconds=SOON_S)
        assert Email.objects.filter(kind="password.reset", state=EmailState.CLAIMED).count() <= 1
        site_settings.resume(main.name)
        eventually(lambda: sorted(main.accepted) == ids(waiting), "what had to wait", seconds=SOON_S)


def test_what_the_first_relay_refuses_is_not_claimed_all_the_time_while_the_second_is_down(
    main: StreamServer, settings: Settings
) -> None:
    """It waits for the relay that can be tried first, and the round says why."""
    settings.WEIR_MAIL_RELAYS = [f"main=smtp://127.0.0.1:{main.port}", f"bulk=smtp://127.0.0.1:{dead_port()}"]
    settings.WEIR_MAIL_ROUTES = {"*": ["main", "bulk"]}
    main.manner = Manner.REFUSES
    resets(60)
    due_now()
    began = time.monotonic()
    runner.send_due()
    assert routes.open_for_s(relays.relays()[1:])  # it was down three times
    due_now()
    report = runner.send_due()
    assert set(Email.objects.values_list("state", "attempts")) == {(EmailState.PENDING, 0)}
    assert "550 5.7.1 Sending paused" in report.stopped_because
    in_time(time.monotonic() - began < refusals.PAUSE_S - 2, "the first relay may soon be asked again")
    assert not Email.objects.filter(next_attempt_at__lt=Now() + timedelta(seconds=2)).exists()


def test_a_process_has_not_ten_senders_for_each_of_many_streams(
    settings: Settings, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a connection to PostgreSQL, too: one provider's trouble would use up all. Each stream has two."""
    looks, decide = count(), policy.another_sender
    monkeypatch.setattr(policy, "another_sender", lambda seen: (next(looks), decide(seen))[1])
    names = [f"t{number}" for number in range(12)]
    with ExitStack() as stack:
        servers = [stack.enter_context(stream_server()) for _ in names]
        settings.WEIR_MAIL_RELAYS = [
            f"{name}=smtp://127.0.0.1:{server.port}" for name, server in zip(names, servers, strict=True)
        ]
        settings.WEIR_MAIL_ROUTES = {"*": ["t0"]} | {name: [name] for name in names}
        for name, server in zip(names, servers, strict=True):
            server.manner = Manner.SLOW
            kinds.register(name)(lambda: Content(subject="Note", text="Hello"))
            queue(name, 12)
        sending = Email.objects.filter(state=EmailState.SENDING)
        of_kinds = sending.values("kind").annotate(number=Count("pk"))
        with sending_meanwhile(), ExitStack() as slow:
            for server in servers:
                slow.enter_context(server.holding())
            eventually(
                lambda: of_kinds.filter(number__gt=1).count() == len(names), "two of each stream", seconds=3 * SOON_S
            )
            until = next(looks) + 20 * len(names)  # each look may begin another sender
            eventually(lambda: next(looks) > until, "some looks", seconds=3 * SOON_S)
            assert sending.count() <= policy.MOST_OF_ALL + len(names)


@pytest.fixture
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailProvider]:
    with mail_provider.running(tmp_path_factory.mktemp("provider")) as running:
        yield running


def claimed_elsewhere(kind: str, relay: str = "") -> Email:
    """Return an e-mail that another mailer has claimed, and begun to send by this relay."""
    [email] = queue(kind)
    [claimed] = leases.claim(1, uuid4())
    assert claimed.pk == email.pk
    if relay:
        leases.begin(claimed, relay, timedelta(days=1) if "resend" in relay else None)
    return claimed


def test_emails_in_each_state_when_the_routes_change(
    main: StreamServer, bulk: StreamServer, provider: MailProvider, settings: Settings
) -> None:
    """What may have been accepted is asked about at its relay, or unknown. Everything else goes by the new routes."""
    settings.WEIR_MAIL_RELAYS = [
        f"tx={provider.url}",
        f"main=smtp://127.0.0.1:{main.port}",
        f"bulk=smtp://127.0.0.1:{bulk.port}",
    ]
    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["bulk"], "*": ["tx"]}
    [tx], old = relays.of_kind("password.reset"), timedelta(hours=1)
    asked = claimed_elsewhere("password.reset", tx.name)
    lost = claimed_elsewhere("newsletter.weekly", f"bulk={bulk.name}")
    Email.objects.update(sending_since=Now() - old)
    abandoned = claimed_elsewhere("password.reset")
    Email.objects.filter(pk=abandoned.pk).update(claimed_until=Now() - old)
    in_flight = claimed_elsewhere("newsletter.weekly", f"bulk={bulk.name}")
    [waiting], [refused] = newsletters(), resets()
    Email.objects.filter(pk=refused.pk).update(attempts=2, last_reply="450 later", relay=tx.name)

    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["main"], "*": ["bulk"]}
    report = runner.send_due()
    assert (report.sent, report.unknown) == (4, 1)
    assert provider.received() == {asked.message_id: 1}
    assert main.accepted == [waiting.message_id]
    assert sorted(bulk.accepted) == ids([abandoned, refused])
    assert (state(lost)[0], state(in_flight)[0]) == (EmailState.UNKNOWN, EmailState.SENDING)
    assert (state(asked)[0], asked.relay) == (EmailState.SENT, tx.name)


def test_whose_relay_is_gone_it_is_unknown_whatever_has_its_name_now(
    main: StreamServer, bulk: StreamServer, provider: MailProvider, settings: Settings
) -> None:
    """A name of the project's own may stand for another relay later, which would send the e-mail a second time."""
    settings.WEIR_MAIL_RELAYS = [f"tx={provider.url}", f"bulk=smtp://127.0.0.1:{bulk.port}"]
    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["bulk"], "*": ["tx"]}
    asked = claimed_elsewhere("password.reset", relays.of_kind("password.reset")[0].name)
    Email.objects.update(sending_since=Now() - timedelta(hours=1))
    settings.WEIR_MAIL_RELAYS = [f"tx=smtp://127.0.0.1:{main.port}", settings.WEIR_MAIL_RELAYS[1]]
    runner.send_due()
    assert state(asked)[0] == EmailState.UNKNOWN
    assert "do not name the relay tx=resend:" in asked.last_reply
    assert (main.accepted, bulk.accepted) == ([], [])


def test_one_that_is_asked_at_another_relay_holds_up_no_other(
    main: StreamServer, bulk: StreamServer, settings: Settings, eventually: Eventually
) -> None:
    """Even if that relay accepts connections, and sends no greeting."""
    settings.WEIR_MAIL_RELAYS = [f"main=smtp://127.0.0.1:{main.port}", f"bulk=smtp://127.0.0.1:{bulk.port}"]
    settings.WEIR_MAIL_ROUTES = {"*": ["main"]}
    bulk.manner = Manner.SILENT
    asked, others = resets(3), resets(100)
    Email.objects.filter(pk__in=[email.pk for email in asked]).update(
        relay=f"bulk={bulk.name}", ask_until=Now() + timedelta(hours=1), priority=5
    )
    with sending_meanwhile(), bulk.holding():
        eventually(lambda: len(main.accepted) == 100, "the e-mails of the relay that works", seconds=SOON_S)
    assert sorted(main.accepted) == ids(others)


@pytest.mark.usefixtures("two_streams")
def test_a_limit_is_that_of_all_streams_together(main: StreamServer, bulk: StreamServer) -> None:
    resets(5)
    newsletters(5)
    assert runner.send_due(limit=6).sent == 6
    assert len(main.accepted) + len(bulk.accepted) == 6


@pytest.mark.usefixtures("two_streams")
def test_a_turn_that_is_over_ends_in_all_streams(main: StreamServer, bulk: StreamServer, settings: Settings) -> None:
    """A stream that is always busy does not keep another one, and so the call, from ending."""
    settings.WEIR_MAIL_RATE = "2/s"  # both wait for their turns
    resets(40)
    newsletters(40)
    began = time.monotonic()
    report = runner.send_due(at_most_s=1.0)
    in_time(time.monotonic() - began < 8.0, "The call went on.")
    assert report.is_out_of_time
    assert main.accepted
    assert bulk.accepted


@pytest.mark.usefixtures("two_streams")
def test_a_turn_that_is_over_goes_on_while_a_slow_relay_keeps_the_call_from_ending(
    main: StreamServer, bulk: StreamServer, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """No other process is there to send the e-mails of the other stream meanwhile."""
    decide, is_over = policy.is_over, threading.Event()

    def look(*, now: float, end_at: float | None, stalled: int) -> bool:
        if end_at is not None and now > end_at:
            is_over.set()
        return decide(now=now, end_at=end_at, stalled=stalled)

    monkeypatch.setattr(policy, "is_over", look)
    bulk.manner = Manner.SLOW
    [letter] = newsletters()
    with sending_meanwhile(at_most_s=1.0), bulk.holding():
        eventually(lambda: state(letter)[0] == EmailState.SENDING, "the e-mail that hangs", seconds=SOON_S)
        eventually(is_over.is_set, "the end of the turn", seconds=SOON_S)
        later = resets()
        eventually(lambda: main.accepted == ids(later), "an e-mail of the other stream", seconds=SOON_S)


def test_an_email_that_began_after_the_end_of_a_turn_keeps_no_other_stream_from_ending(
    main: StreamServer, settings: Settings, eventually: Eventually
) -> None:
    """Otherwise two streams that are always busy would keep each other from ending."""
    settings.WEIR_MAIL_RELAYS = [f"main=smtp://127.0.0.1:{main.port}"]
    main.manner = Manner.SLOW
    resets()
    held = Source(ClaimAllowance(None), lambda _: 0.0).next()
    assert held
    sender, end_at = Sender(relays.relays()), time.monotonic()

    def deliver() -> None:
        try:
            sender.deliver(held)
        finally:
            sender.close()
            connection.close()

    with ThreadPoolExecutor(1) as pool, main.holding():
        delivering = pool.submit(deliver)
        eventually(lambda: sender.is_late(time.monotonic()), "an e-mail that takes long", seconds=SOON_S)
        assert not sender.is_late(end_at)
    delivering.result()


@pytest.mark.parametrize("order", [1, -1])
def test_a_claim_takes_the_kinds_that_settings_give_its_stream(order: int) -> None:
    """Its SQL chooses the same pattern as Python does."""
    patterns = ["*", "a.*", "a.b", "a.b.*", "a.b.c.d", "_.*", "a_b"][::order]
    names = ["a", "a.b", "a.b.c", "a.b.c.d", "a.b.c.d.e", "a.bc", "ab.c", "b", "_", "_.a", "a_b", "a_b.c", "axb", "A.b"]
    for name in names:
        Email.objects.create(kind=name, key="1", message_id=f"<{name}@x>", recipient="kim@customers.example")
    taken = {
        pattern: {email.kind for email in leases.claim(50, uuid4(), {each: each == pattern for each in patterns})}
        for pattern in patterns
    }
    assert taken == {
        pattern: {name for name in names if kind_routes.of_kind(name, patterns) == pattern} for pattern in patterns
    }


@pytest.mark.usefixtures("two_streams")
def test_operators_see_by_which_relays_it_would_go(main: StreamServer, bulk: StreamServer) -> None:
    [reset], [letter] = resets(), newsletters()
    assert [relay.name for relay in goes_by(reset)] == [f"main={main.name}"]
    assert [relay.name for relay in goes_by(letter)] == [f"bulk={bulk.name}"]
    letter.ask_until, letter.relay = timezone.now(), f"main={main.name}"
    assert [relay.name for relay in goes_by(letter)] == [f"main={main.name}"]
    by_kind = {kind.kind: kind.relays for kind in counts.of_kinds()}
    assert by_kind == {
        "password.reset": [f"main={main.name}"],
        "newsletter": [f"main={main.name}"],
        "newsletter.weekly": [f"bulk={bulk.name}"],
    }
    told = StringIO()
    call_command("emails", "kinds", stdout=told)
    assert f"bulk={bulk.name}" in told.getvalue()
    call_command("emails", "show", str(letter.pk), stdout=told)
    assert f"goes by bulk={bulk.name}" in " ".join(told.getvalue().split())
    reset.state = EmailState.SENT
    assert goes_by(reset) == []
