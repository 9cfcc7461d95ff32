"""SIGKILL at every step, with two kinds of relay: no e-mail is accepted twice, by both servers' lists together."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from pytest_django import Settings

from demo.fakes import mail_provider, mail_server
from demo.fakes.mail_provider import MailProvider
from demo.fakes.mail_server import ACCEPTED
from tests.acceptance.mail import relay_processes as roles
from tests.acceptance.mail.coming_and_going import ComingAndGoing
from tests.acceptance.mail.test_mail_kills import unfinished
from tests.acceptance.processes import Processes
from tests.waiting import comes_true, wait_for
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase

AT_LENGTH = "WEIR_FAULTS" in os.environ
EMAILS = 5_500 if AT_LENGTH else 50  # of a scene
KILLS = 120 if AT_LENGTH else 2  # of mailers, at random
KILLS_A_STEP = 16 if AT_LENGTH else 1
KILLS_A_CLERK_STEP = 5 if AT_LENGTH else 1
KILLS_A_CLERK = 10  # kills of mailers for each kill of a clerk, at random
KILLS_A_CHANGE = 6 if AT_LENGTH else 3  # kills until the mail server goes away, or comes back
MAILERS = 4
CLERKS = 2
LONGEST_S = 400 if AT_LENGTH else 90
COMMAND_S = 1.0
REPLY_S = 5.0 if AT_LENGTH else 1.0
BEGIN_S = 1.0  # `begin` takes no longer: a server that was killed meanwhile had said 354 before
MAIL_SETTINGS = {
    "EMAIL_TIMEOUT": COMMAND_S,
    "WEIR_MAIL_COMMAND_TIMEOUT": COMMAND_S,
    "WEIR_MAIL_REPLY_TIMEOUT": REPLY_S,
    "WEIR_MAIL_LEASE": 2.0,
    "WEIR_MAIL_UNKNOWN_AFTER": 2 * COMMAND_S + REPLY_S + 0.5,
}
# What the provider does (see demo.fakes.provider_server), and how many of each.
BY_PROVIDER = {
    "plain": 120,
    "late-100": 3,
    "error-unaccepted": 8,
    "error-accepted": 8,
    "cut-unaccepted": 8,
    "cut-accepted": 8,
    "half-accepted": 4,
    "garbage-accepted": 3,
    "nonsense-accepted": 3,
    "hang-accepted": 2,
    "trickle-accepted": 1,
    "farewell": 4,
    "limit-1": 1,
    "refuse": 6,
}
# What either server does, the mail server (see demo.fakes.mail_server) or the provider.
BY_BOTH = {
    "plain": 120,
    "late-100": 3,
    "error-accepted": 8,
    "half-accepted": 4,
    "cut-before-dot": 8,
    "cut-unaccepted": 4,
    "cut-accepted": 4,
    "cut-after-reply": 8,
    "closing": 6,
    "greylist-1": 4,
    "refuse": 4,
    "refuse-content": 3,
}


@pytest.fixture
def chance() -> random.Random:
    return random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[MailProvider]:
    with mail_provider.running(tmp_path) as running:
        yield running


class Scene:
    """Clerks and mailers, and which of them were killed."""

    def __init__(self, processes: Processes, words: dict[str, int], chance: random.Random) -> None:
        self._processes = processes
        self._words = words
        self._chance = chance
        self.killed: dict[int | None, str] = {}  # mailers' process ids -> the step
        self.killed_clerks: Counter[str] = Counter()
        self._clerks = [self._clerk() for _ in range(CLERKS)]
        self._mailers = [self._mailer() for _ in range(MAILERS)]

    def kill_at_random(self) -> None:
        """Kill a mailer, at times a clerk, and start another."""
        time.sleep(self._chance.uniform(0.0, 0.1))  # chance decides when
        mailer = self._mailers.pop(0)
        self._processes.kill(mailer)
        self.killed[mailer.pid] = "at random"
        self._mailers.append(self._mailer())
        if len(self.killed) % KILLS_A_CLERK == 0:
            self._processes.kill(self._clerks.pop(0))
            self.killed_clerks["at random"] += 1
            self._clerks.append(self._clerk())

    def kill_at(self, step: str) -> None:
        """Start one more mailer, or clerk, that kills itself at this step."""
        if step in roles.CLERK_STEPS:
            self._processes.gone(self._clerk(step))
            self.killed_clerks[step] += 1
            return
        mailer = self._mailer(step)
        self._processes.gone(mailer)
        self.killed[mailer.pid] = step

    def end(self, received: Callable[[], Counter[str]]) -> list[Email]:
        """Wait until there are enough e-mails and all have ended; return them. Fail if one was accepted twice."""
        wait_for(lambda: Email.objects.count() >= EMAILS, LONGEST_S, f"{EMAILS} e-mails")
        for clerk in self._clerks:
            self._processes.kill(clerk)
            self.killed_clerks["at the end"] += 1

        def twice() -> set[str]:
            return {address for address, times in received().items() if times > 1}

        have_ended = comes_true(lambda: twice() or not unfinished_but_refused(), LONGEST_S, every_s=0.2)
        assert twice() == set()
        assert have_ended
        self._processes.finish()
        assert twice() == set()
        emails = list(Email.objects.all())
        kills = Counter(self.killed.values()) + self.killed_clerks
        print(f"\n{len(emails)} e-mails: {dict(Counter(email.state for email in emails))}")
        print(f"kinds: {dict(Counter(email.kind for email in emails))}")
        print(
            f"{kills.total()} kills: mailers {dict(Counter(self.killed.values()))}, clerks {dict(self.killed_clerks)}"
        )
        return emails

    def _clerk(self, die_at: str = "") -> ForkServerProcess:
        return self._processes.start(roles.queue_emails, self._processes.stop, self._words, die_at)

    def _mailer(self, die_at: str = "") -> ForkServerProcess:
        return self._processes.start(roles.keep_sending, self._processes.stop, die_at)


@pytest.fixture
def coming_and_going(tmp_path: Path) -> Iterator[ComingAndGoing]:
    made = ComingAndGoing(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path) -> Iterator[Processes]:  # noqa: ARG001  must come first
    made = Processes(tmp_path, roles.__name__, "WEIR_MAIL_RELAYS", *MAIL_SETTINGS)
    try:
        yield made
    finally:
        made.close()


def use(settings: Settings, *relays: str) -> None:
    """Name the relays in the settings, with short times."""
    settings.WEIR_MAIL_RELAYS = list(relays)
    for name, value in MAIL_SETTINGS.items():
        setattr(settings, name, value)


@pytest.mark.faults
def test_whoever_is_killed_a_provider_accepts_no_email_twice_and_none_stays_unknown(
    processes: Processes, provider: MailProvider, settings: Settings, chance: random.Random
) -> None:
    """The provider's answers are lost, late, cut, wrong; asking again with the key settles all."""
    use(settings, provider.url)
    scene = Scene(processes, BY_PROVIDER, chance)
    for step in steps(chance):
        scene.kill_at(step) if step else scene.kill_at_random()
    emails = scene.end(lambda: accepted_by_recipient(provider.events()))

    accepted = accepted_by_recipient(provider.events())
    asked_for = Counter(event.event.split(" ")[0] for event in provider.events())
    print(f"the provider: {dict(asked_for)}; {still_refused(emails)} refused ones are still asked about")
    for email in emails:
        is_refused = email.recipient.startswith("refuse")
        assert accepted[email.recipient] == (not is_refused), (email, email.last_reply)
        assert email.state == EmailState.SENT or is_refused, (email, email.last_reply)
        assert email.state == EmailState.SENT or "422" in email.last_reply, (email, email.last_reply)
        assert email.state in {EmailState.SENT, EmailState.FAILED} or is_asked(email), (email, email.last_reply)


@pytest.mark.faults
def test_what_a_mail_server_may_have_accepted_never_goes_by_the_second_relay(
    processes: Processes,
    provider: MailProvider,
    coming_and_going: ComingAndGoing,
    settings: Settings,
    chance: random.Random,
) -> None:
    """The mail server is killed, comes back, refuses us; the provider takes what it has certainly not accepted."""
    first = f"smtp://{mail_server.HOST}:{coming_and_going.server.port}"
    use(settings, first, provider.url)
    scene = Scene(processes, BY_BOTH, chance)
    for number, step in enumerate(steps(chance), 1):
        if number % KILLS_A_CHANGE == 0:
            coming_and_going.change()
        scene.kill_at(step) if step else scene.kill_at_random()
    coming_and_going.work()
    mail = coming_and_going.server
    emails = scene.end(lambda: accepted_by_recipient(mail.events()) + accepted_by_recipient(provider.events()))

    by_server = accepted_by_recipient(mail.events())
    by_provider = accepted_by_recipient(provider.events())
    accepted = by_server + by_provider
    print(f"accepted: {by_server.total()} by the mail server ({dict(coming_and_going.changes)}), ", end="")
    print(f"{by_provider.total()} by the provider; {still_refused(emails)} refused ones are still asked about")
    assert min(by_server.total(), by_provider.total()) > 0
    for email in emails:
        expected = {EmailState.SENT: {1}, EmailState.UNKNOWN: {0, 1}}.get(EmailState(email.state), {0})
        assert accepted[email.recipient] in expected, (email, email.last_reply)
        ends_well = email.state in {EmailState.SENT, EmailState.UNKNOWN} or email.recipient.startswith("refuse")
        assert ends_well, (email, email.last_reply)
    unknown = [email for email in emails if email.state == EmailState.UNKNOWN]
    assert [email for email in unknown if email.recipient in by_provider] == []
    assert {email.relay for email in unknown} <= {f"{mail_server.HOST}:{coming_and_going.server.port}"}
    explain(unknown, coming_and_going, scene)


def steps(chance: random.Random) -> list[str]:
    """Return where to kill, one after the other, in an order that chance decides; "" is at random."""
    kills = [""] * KILLS + list(roles.STEPS) * KILLS_A_STEP + list(roles.CLERK_STEPS) * KILLS_A_CLERK_STEP
    chance.shuffle(kills)
    return kills


def explain(unknown: list[Email], mail: ComingAndGoing, scene: Scene) -> None:
    """Fail unless each was cut off after the dot, by the server or its death, or begun by a mailer that was killed."""
    cut = {event.recipient: event.event for event in mail.server.events() if event.event.startswith("cut")}
    causes = Counter(why_unknown(email, cut, mail.killed_at, scene.killed) for email in unknown)
    print(f"unknown: {dict(causes)}")


def why_unknown(email: Email, cut: dict[str, str], server_killed_at: list[float], killed: dict[int | None, str]) -> str:
    """Return what explains that the e-mail is unknown; fail if nothing does."""
    begun_by = int(email.claimed_by.rpartition(":")[2])
    if email.phase != Phase.AFTER_DOT:
        assert begun_by in killed, email
        assert roles.STEPS.get(killed[begun_by], True), email
        return f"the mailer was killed {killed[begun_by]}"
    if email.recipient in cut:
        # "cut before dot": the server did not read it, but the mailer's kernel had taken it
        return f"{cut[email.recipient]}, by the mail server"
    if "timed out" in email.last_reply:
        return "no reply came in time"
    assert was_in_hand(email, server_killed_at), (email, email.last_reply)
    return "the mail server was killed"


def was_in_hand(email: Email, server_killed_at: list[float]) -> bool:
    """Return whether the mail server was killed while it could have had the e-mail."""
    assert email.sending_since
    begun = email.sending_since.timestamp()
    return any(begun - BEGIN_S <= moment <= begun + COMMAND_S + REPLY_S for moment in server_killed_at)


def accepted_by_recipient(events: list[mail_server.Event] | list[mail_provider.Event]) -> Counter[str]:
    """Return how often each address got an e-mail: each belongs to one kind and key."""
    return Counter(event.recipient for event in events if event.event == ACCEPTED)


def is_asked(email: Email) -> bool:
    """Return whether the provider is still asked about the e-mail: a refusal says nothing of an earlier attempt."""
    return email.state == EmailState.PENDING and email.ask_until is not None


def still_refused(emails: list[Email]) -> int:
    """Return how many e-mails the provider is still asked about; it refuses each time."""
    return sum(is_asked(email) for email in emails)


def unfinished_but_refused() -> bool:
    """Return whether an e-mail will still change by itself within the time of a test."""
    refused = Email.objects.filter(state=EmailState.PENDING, ask_until__isnull=False, last_reply__contains="422")
    held = Email.objects.filter(state__in=(EmailState.PENDING, EmailState.CLAIMED, EmailState.SENDING))
    return unfinished() and held.exclude(pk__in=refused.values("pk")).exists()
