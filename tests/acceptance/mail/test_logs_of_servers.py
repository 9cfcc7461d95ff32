"""Logs of real mail servers, of two hosts each, mixed and damaged, never give a wrong verdict."""

import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from tests import exim, postfix
from tests.acceptance.mail.damaged_logs import Damage, Said, of_exim, of_postfix
from tests.exim import Exim
from tests.postfix import Postfix
from tests.waiting import wait_for
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.verdicts import LoggedAttempt, LogOutcome, LogVerdict, Vouched, judge

AT_LENGTH = "WEIR_FAULTS" in os.environ
EMAILS = 2_000 if AT_LENGTH else 60
# E-mails that are sent without a pause; then there is one: damage to one burst spares the others.
BURST = 50 if AT_LENGTH else 30
ROUNDS = 60 if AT_LENGTH else 20  # of damage, to the same logs
CLIENTS = 4
CLOCK_ERROR = timedelta(seconds=1.5)  # one clock, but the log has whole seconds, of a time that trails by a tick
REFUSING = "header_checks = regexp:{ { /^Subject: refuse/ REJECT } }\n"
# How an attempt ends: what was transmitted before the client was gone.
ENDINGS = ("reply", "dot", "dot, reset", "content", "nothing of the content", "recipient", "refused", "nothing")
# Words of the reasons why an e-mail stays unknown, by which they are counted.
REASONS = (
    *("a line was not understood", "two lines ran together", "NULs", "a line of it is not complete", "is one missing?"),
    *("does not end where a line ends", "cannot be read to its end", "none between them", "end at", "begin at"),
    *("not in the order of time", "have lines of the same time", "logged no Message-ID at all", "has its Message-ID"),
    *("the content came in", "started then without having been stopped", "--year"),
)
pytestmark = pytest.mark.faults


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt to send an e-mail."""

    message_id: str
    since: datetime
    until: datetime

    def attempt(self) -> LoggedAttempt:
        return LoggedAttempt(message_id=self.message_id, relay="", since=self.since, until=self.until)


Server = Postfix | Exim


KINDS = ("postfix", "exim", "both") if AT_LENGTH else ("postfix", "exim")
MISSING = {"postfix": postfix.why_not(), "exim": exim.why_not(), "both": postfix.why_not() or exim.why_not()}


@pytest.fixture(scope="module")
def judge_logs_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], None]]:
    """Judge the logs of each kind of server that there is, at the same time: most of the time is waiting for the clock.

    Returns a function that asserts the result for a kind. If a test was too late and is run once more, it begins again.
    """
    with ThreadPoolExecutor(1 if AT_LENGTH else len(KINDS)) as beside:

        def begin(kind: str) -> Future[None]:
            return beside.submit(_judge_logs_of, kind, tmp_path_factory.mktemp(kind))

        def end(kind: str) -> None:
            (begun.pop(kind, None) or begin(kind)).result()

        begun = {kind: begin(kind) for kind in KINDS if not MISSING[kind]}
        yield end


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.skipif(bool(why), reason=why))
        for kind, why in MISSING.items()
        if kind in KINDS
    ],
)
def test_no_verdict_is_wrong_whatever_becomes_of_the_logs(judge_logs_of: Callable[[str], None], kind: str) -> None:
    """What is called accepted is in a mailbox; what is called not accepted is not, and is sent again once."""
    judge_logs_of(kind)


def _judge_logs_of(kind: str, folder: Path) -> None:
    """Let two hosts of a kind, or of both, log what clients of all sorts do, and judge their logs."""
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        if kind != "exim":
            servers |= {name: stack.enter_context(postfix.running(REFUSING)) for name in ("mx1", "mx2")}
        if kind != "postfix":
            servers |= {name: stack.enter_context(exim.running()) for name in ("mx3", "mx4")}
        _judge_logs(servers, folder)


def _judge_logs(servers: dict[str, Server], folder: Path) -> None:
    seed = os.environ.get("WEIR_FAULTS_SEED", "weir")
    chance = Random(seed)  # noqa: S311  what breaks, and when
    begin = datetime.now(UTC)
    have_all_log(servers)  # each log begins before all attempts
    pause()
    sent = send(list(servers.values()), chance)
    settle_down(servers)
    pause()
    have_all_log(servers)  # each log ends after all attempts
    said = lines_of(servers)
    end = datetime.now(UTC)
    came = received(servers)
    print(f"\n{len(sent)} e-mails, {sum(came.values())} came, {sum(map(len, said.values()))} lines; seed {seed}")
    vouched = {
        empty: Vouched(complete_from=begin, complete_until=end, clock_error=CLOCK_ERROR, queue_empty=empty)
        for empty in (True, False)
    }
    wrong: list[tuple[int, Sent, LogVerdict]] = []
    outcomes, why = Counter[LogOutcome](), Counter[str]()
    for number in range(ROUNDS):
        damage = Damage(folder / str(number), Random(f"{seed} {number}"), harmless=number == 0)  # noqa: S311
        verdicts = judged(damage, said, sent, vouched[number % 2 == 0])
        outcomes_now, why_now = Counter(verdict.outcome for _, verdict in verdicts), reasons(verdicts)
        tell(f"round {number}", outcomes_now, why_now)
        outcomes, why = outcomes + outcomes_now, why + why_now
        wrong += [(number, each, verdict) for each, verdict in verdicts if is_wrong(verdict, came[each.message_id])]
        if number == 0:
            undamaged = verdicts
    tell("all rounds", outcomes, why)
    for found in wrong:
        print("wrong:", *found)
    assert wrong == []
    assert [verdict.why for _, verdict in undamaged if verdict.outcome is LogOutcome.STILL_UNKNOWN] == []

    for each, verdict in verdicts:
        if verdict.outcome is LogOutcome.NOT_ACCEPTED:
            submit(chance.choice(list(servers.values())), each.message_id, "reply")
    settle_down(servers)
    assert [message_id for message_id, number in received(servers).items() if number > 1] == []


def send(servers: Sequence[Server], chance: Random) -> list[Sent]:
    """Send e-mails, each to one of the hosts; chance decides how the attempt ends."""
    plans = [
        (chance.choice(servers), f"order.shipped-{number}-{chance.getrandbits(48):012x}@example.com", ending)
        for number, ending in ((number, chance.choice(ENDINGS)) for number in range(EMAILS))
    ]
    sent: list[Sent] = []
    with ThreadPoolExecutor(CLIENTS) as clients:
        for at in range(0, EMAILS, BURST):
            if at:
                pause()
            sent += clients.map(lambda plan: submit(*plan), plans[at : at + BURST])
    return sent


def pause() -> None:
    """Wait until the clock tells earlier attempts from later ones."""
    apart = datetime.now(UTC) + 2 * CLOCK_ERROR + timedelta(seconds=1)
    wait_for(lambda: datetime.now(UTC) >= apart, 60, "the clock")


def submit(server: Server, message_id: str, ending: str) -> Sent:
    since = datetime.now(UTC)
    if ending != "nothing":
        transmit(server.port, message_id, ending)
    return Sent(message_id, since, datetime.now(UTC) + timedelta(seconds=1))


def transmit(port: int, message_id: str, ending: str) -> None:
    with socket.create_connection((postfix.HOST, port), timeout=60) as connection:
        replies = connection.makefile("rb")

        def say(command: str, *codes: bytes) -> None:
            connection.sendall(f"{command}\r\n".encode() if command else b"")
            while (line := replies.readline())[3:4] == b"-":
                pass
            assert line[:3] in codes, line

        say("", b"220")
        say("EHLO web.example", b"250")
        say("MAIL FROM:<shop@example.com>", b"250")
        say("RCPT TO:<kim@customers.example>", b"250")
        if ending == "recipient":
            return
        say("DATA", b"354")
        if ending == "nothing of the content":
            return
        subject = "refuse" if ending == "refused" else "hello"
        content = f"Message-ID: <{message_id}>\r\nSubject: {subject}\r\n\r\n" + "text\r\n" * 40
        connection.sendall(content.encode())
        if ending == "content":
            return
        if ending in {"reply", "refused"}:
            say(".", b"250" if ending == "reply" else b"550")
            return
        connection.sendall(b".\r\n")
        if ending == "dot, reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def settle_down(servers: dict[str, Server]) -> None:
    """Wait until all is delivered."""
    for server in servers.values():
        server.wait_until_queue_is_empty()


def have_all_log(servers: dict[str, Server]) -> None:
    """Make each server log lines that name an e-mail."""
    for name, server in servers.items():
        submit(server, f"last-{name}-{time.time_ns()}@example.com", "reply")
    settle_down(servers)


def lines_of(servers: dict[str, Server]) -> dict[str, list[Said]]:
    year = datetime.now(UTC).year
    return {
        name: of_exim(server.log.read_bytes())
        if isinstance(server, Exim)
        else of_postfix(server.log.read_bytes(), year)
        for name, server in servers.items()
    }


def received(servers: dict[str, Server]) -> Counter[str]:
    """Return how often each e-mail was accepted, by its bare Message-ID."""
    found = Counter[str]()
    for server in servers.values():
        for key, number in server.received().items():
            found[(key if isinstance(key, str) else key[0]).strip("<>")] += number if isinstance(key, str) else 1
    return found


def judged(
    damage: Damage, said: dict[str, list[Said]], sent: Sequence[Sent], vouched: Vouched
) -> list[tuple[Sent, LogVerdict]]:
    names = [name for host, lines in said.items() for name in damage.write(host, lines)]
    with files.opened(names) as opened:
        logs = reading.read(opened, [each.message_id for each in sent], UTC)
    return [(each, judge(each.attempt(), logs, vouched)) for each in sent]


def is_wrong(verdict: LogVerdict, came: int) -> bool:
    return verdict.outcome is (LogOutcome.NOT_ACCEPTED if came else LogOutcome.ACCEPTED)


def reasons(verdicts: Sequence[tuple[Sent, LogVerdict]]) -> Counter[str]:
    """Count why e-mails stay unknown."""
    unknown = [verdict.why for _, verdict in verdicts if verdict.outcome is LogOutcome.STILL_UNKNOWN]
    return Counter(next((words for words in REASONS if words in why), why) for why in unknown)


def tell(name: str, outcomes: Counter[LogOutcome], why: Counter[str]) -> None:
    """Print how many there are of each outcome, and why they stay unknown."""
    counts = ", ".join(f"{outcomes[outcome]:,} {outcome}" for outcome in LogOutcome)
    print(f"{name}: {counts};", ", ".join(f"{number:,} {words}" for words, number in why.most_common()))
