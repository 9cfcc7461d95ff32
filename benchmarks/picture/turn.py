"""One turn: a side does all three jobs under load, while its processes are killed; then what went wrong is counted."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from benchmarks.figures import Figure
from benchmarks.picture.killed import Kind, Programs
from benchmarks.picture.size import INTERVAL_S, Size
from demo.fakes import judge, mail_server, site_log, sites
from demo.fakes.mail_server import ACCEPTED, MailServer
from demo.fakes.site_log import Arrival

TICK_S = 0.05  # between two steps of the load
LOOK_EVERY = 5  # steps
START_S = 180.0  # within which all have begun, on a busy machine
SOON_S = 15.0  # within which they go on after a kill, on the average
BACKLOG_S = 300.0  # of URLs, by the rates: a busy machine must not run out of them
REPLY_MS = 100  # what the mail server's reply takes once it has accepted an e-mail, as over a long line
EMAILS_AHEAD = 30  # that wait for each mailer, as URLs do
SEED = 1


class Side(Protocol):
    """Whoever does the three jobs."""

    name: str
    pacers: Sequence[str]  # who asks sites, each of them sites of its own
    mailers: Sequence[str]  # who sends e-mails, each of them all

    def kinds(self, port: int) -> list[Kind]:
        """Return the processes, for a mail server at this port."""

    def begin(self, urls: Mapping[str, list[str]], folder: Path) -> None:
        """Begin with nothing but these URLs, by who is to ask for them."""

    def act(self, chance: Random, waiting: Mapping[str, int]) -> None:
        """Do what web code does in one step of the load: notify users, mark as read, and ship orders.

        `waiting` says how many e-mails of each mailer have not come.
        """

    def shipped(self) -> Mapping[str, int]:
        """Return how many orders were shipped, by who sends their e-mails."""

    def has_settled(self, outside: "Outside") -> bool:
        """Return whether no e-mail will be sent any more."""

    def figures(self, outside: "Outside") -> Iterator[Figure]:
        """Yield what only the side knows, once its processes are gone."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What the sites and the mail server have seen."""

    hosts: Mapping[str, Sequence[str]]  # by who asks them
    mailers: Sequence[str]
    log: Path
    mails: MailServer

    def arrivals(self, pacer: str) -> list[Arrival]:
        """Return the requests to the pacer's sites."""
        own = set(self.hosts[pacer])
        return [arrival for arrival in site_log.read_arrivals(self.log)[0] if arrival.host in own]

    def received(self, mailer: str) -> Counter[str]:
        """Return how often each recipient got the e-mail of this mailer."""
        of = f".{mailer}-"
        return Counter(
            event.recipient for event in self.mails.events() if event.event == ACCEPTED and of in event.recipient
        )

    def done(self) -> dict[str, int]:
        """Return how much everybody has done who asks or sends."""
        asked = {f"asked by {pacer}": len(self.arrivals(pacer)) for pacer in self.hosts}
        return asked | {f"sent by {mailer}": self.received(mailer).total() for mailer in self.mailers}

    def waiting(self, shipped: Mapping[str, int]) -> dict[str, int]:
        """Return how many e-mails of each mailer have not come."""
        return {mailer: number - len(self.received(mailer)) for mailer, number in shipped.items()}

    def figures(self, shipped: Mapping[str, int]) -> Iterator[Figure]:
        """Yield the requests that came early, and the e-mails that came twice or never."""
        for pacer, hosts in self.hosts.items():
            found = judge.verdicts(self.arrivals(pacer), dict.fromkeys(hosts, INTERVAL_S)).values()
            yield _figure(pacer, "requests", sum(of.count for of in found), "requests")
            yield _figure(pacer, "early", sum(of.early_starts for of in found), "requests")
        for mailer, never in self.waiting(shipped).items():
            twice = sum(times > 1 for times in self.received(mailer).values())
            yield _figure(mailer, "emails", shipped[mailer], "e-mails")
            yield _figure(mailer, "twice", twice, "e-mails")
            yield _figure(mailer, "never", never, "e-mails")


def recipient(mailer: str, number: int) -> str:
    """Return the address of the customer of an order, whose e-mail this mailer sends."""
    return f"late-{REPLY_MS}.{mailer}-{number}@customers.example"


def play(side: Side, size: Size, folder: Path) -> Iterator[Figure]:
    """Let a side do its jobs while its processes are killed; yield what went wrong."""
    folder.mkdir(exist_ok=True)
    for log in ("requests.log", "answers.log", "mail.jsonl", f"{side.name}.log"):
        (folder / log).unlink(missing_ok=True)
    with sites.running(size.sites * len(side.pacers), folder) as running, mail_server.running(folder) as mails:
        places = {pacer: range(n * size.sites, (n + 1) * size.sites) for n, pacer in enumerate(side.pacers)}
        hosts = {pacer: [running.hosts[place] for place in of] for pacer, of in places.items()}
        outside = Outside(hosts=hosts, mailers=side.mailers, log=running.log, mails=mails)
        each = range(int(BACKLOG_S / INTERVAL_S))
        urls = {pacer: [running.url(place, f"/ok/{n}") for n in each for place in of] for pacer, of in places.items()}
        side.begin(urls, folder)
        with Programs(side.kinds(mails.port), folder / f"{side.name}.log") as programs:
            _load(side, programs, outside, size)
            _wait(lambda: side.has_settled(outside), size.settle_s)
        yield _figure(side.name, "kills", size.kills, "kills")
        yield from outside.figures(side.shipped())
        yield from side.figures(outside)


def _load(side: Side, programs: Programs, outside: Outside, size: Size) -> None:
    """Let web code act, and kill at random while everybody works, until all kills are done and all work again."""
    load, chance = Random(SEED), Random(SEED)  # noqa: S311  no secrets
    left, done = size.kills, dict.fromkeys(outside.done(), 0)
    kill_at, give_up_at = 0.0, time.monotonic() + START_S + size.kills * (SOON_S + size.kill_every_s)
    for number in _steps():
        side.act(load, outside.waiting(side.shipped()))
        if number % LOOK_EVERY or time.monotonic() < kill_at:
            continue
        programs.check()
        if all(number > done[by] for by, number in outside.done().items()):
            if not left:
                return
            programs.kill(chance)
            left, done = left - 1, outside.done()
            kill_at = time.monotonic() + size.kill_every_s * chance.uniform(0.5, 1.5)
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"Somebody did not go on after a kill: {outside.done()}; see {programs.log}.")


def _steps() -> Iterator[int]:
    """Yield a number each `TICK_S`; a step that is late is not made up for."""
    next_at = time.monotonic()
    for number in itertools.count(1):
        yield number
        next_at = max(next_at + TICK_S, time.monotonic())
        time.sleep(max(0.0, next_at - time.monotonic()))


def _wait(is_over: Callable[[], bool], at_most_s: float) -> None:
    give_up_at = time.monotonic() + at_most_s
    while not is_over() and time.monotonic() < give_up_at:
        time.sleep(TICK_S)


def _figure(by: str, of: str, value: float, unit: str) -> Figure:
    return Figure(name=f"picture_{by}_{of}", value=value, unit=unit)
