"""From the version before to this one and back, a process at a time, under the load of all three jobs."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from demo.fakes import mail_server, site_log, sites
from demo.fakes.mail_server import MailServer
from demo.fakes.sites import Sites
from project import embedded
from project.checkout import CHECKOUT
from tests import own_servers, upgrade_from
from tests.acceptance import judging
from tests.acceptance.conftest import ALLOW_NETS
from tests.acceptance.upgrade.releases import CODE, WEB, Fleet, Release
from tests.own_servers import Server
from tests.waiting import wait_for

ORDER = ("fetcher", "mailer", "worker", "maintenance", "ticks", "beat", WEB, CODE)
SITES = 6
RATES = (2, 5, 10)  # requests a second
AT_LENGTH = "WEIR_FAULTS" in os.environ
HOLD_S = 3.0 if AT_LENGTH else 0.0  # in which processes of both versions run, at least
# What the version before is asked when it meets the new tables.
LOOKS = ("status", "sites list --json", "fetches list", "emails list", "emails show 1", "unread_status", "processes")


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """What all stands on: servers, sites, and two versions."""

    server: Server
    sites: Sites
    mails: MailServer
    before: Release
    now: Release
    fleet: Fleet
    steps: list[tuple[float, str]] = field(default_factory=list)

    def replace_all(self, version: Release, waves: Sequence[Sequence[str]]) -> None:
        """Replace all processes, those of a wave at once."""
        for kinds in waves:
            for step in self.fleet.replace(kinds, version):
                self.hold(step)
        self.hold(f"all of {version.name}")

    def hold(self, step: str) -> None:
        """Let each job make progress for a while."""
        self.steps.append((time.time(), step))
        goal = [number + 1 for number in progress(self)]
        until = time.monotonic() + HOLD_S
        wait_for(
            lambda: time.monotonic() > until and all(a >= b for a, b in zip(progress(self), goal, strict=True)),
            30,
            f"progress with {step}",
        )
        webs = [process for process in self.fleet.running if process.kind == WEB]
        assert {process.answers("/healthz") for process in webs} == {200}

    def longest_gap(self, times_s: Sequence[float]) -> str:
        """Return for how long nothing happened at most, and after which step that began."""
        times = sorted(times_s)
        gap, since = max((after - before, before) for before, after in pairwise(times))
        step = [name for at, name in self.steps if at <= since + gap] or ["the start"]
        return f"{gap:.1f} s ({step[-1]})"


@pytest.fixture
def upgrade(tmp_path: Path) -> Iterator[Upgrade]:
    """Servers of the test's own, empty, and the code of both versions."""
    code, broker = tmp_path / "before", tmp_path / "broker"
    for folder in (code, broker):
        folder.mkdir()
    upgrade_from.check_out(code)
    with (
        own_servers.primary() as server,
        embedded.servers(broker, postgres=False, durable=False),
        sites.running(SITES, tmp_path) as running,
        mail_server.running(tmp_path) as mails,
    ):
        servers = {
            "DATABASE_URL": f"postgresql://postgres@/{own_servers.NAME}?host={server.folder}",
            "REDIS_URL": f"unix://{embedded.valkey_socket(broker)}",
            "WEIR_FETCH_ALLOW_NETS": ALLOW_NETS,
            "EMAIL_HOST": mail_server.HOST,
            "EMAIL_PORT": str(mails.port),
            "SKIP_CHECKS": "1",
        }
        rates = {f"{host}:{running.port}": RATES[place % len(RATES)] for place, host in enumerate(running.hosts)}
        fleet = Fleet(folder=tmp_path, server=server, rates=rates)
        before, now = (
            Release(name=name, folder=folder, servers=servers) for name, folder in (("N", code), ("N1", CHECKOUT))
        )
        try:
            yield Upgrade(server=server, sites=running, mails=mails, before=before, now=now, fleet=fleet)
        finally:
            fleet.stop()


@pytest.mark.faults
def test_an_upgrade_and_the_way_back_stop_nothing(upgrade: Upgrade) -> None:
    """No request is early, nothing is lost, no number is wrong, no e-mail is sent twice; and no job stands still."""
    fleet = upgrade.fleet
    assert upgrade.before.imported() == {upgrade.before.folder}
    assert upgrade.now.imported() == {CHECKOUT}
    upgrade.before.release()
    fleet.start(upgrade.before, *ORDER)
    upgrade.hold("all of N")
    upgrade.now.release()
    upgrade.hold("all of N, migrated")
    upgrade.replace_all(upgrade.now, [(kind,) for kind in ORDER] if AT_LENGTH else [ORDER])
    if AT_LENGTH:
        look(upgrade.before)
        upgrade.before.release()
        upgrade.replace_all(upgrade.before, [(kind,) for kind in reversed(ORDER)])
        upgrade.replace_all(upgrade.now, [ORDER])
    fleet.end(CODE)
    wait_for(lambda: not unfinished(upgrade.server), 120, "fetches and e-mails to end")
    wait_for(lambda: one(upgrade.server, judging.STORED_WRONG) == [0], 60, "stored numbers")
    fleet.end(*ORDER)
    judge(upgrade)


def test_the_page_has_this_order() -> None:
    """What is documented is what is tested: web code is a part of the web process."""
    page = (CHECKOUT / "docs" / "how-to" / "upgrade.md").read_text()
    assert tuple(re.findall(r"^\d\. `(\w+)`$", page, re.MULTILINE)) == tuple(kind for kind in ORDER if kind != CODE)


def look(version: Release) -> None:
    """Let its commands read what the other version has written."""
    for command in LOOKS:
        version.manage(*command.split(), statuses={0, 1})  # 1: something needs somebody


def progress(upgrade: Upgrade) -> list[int]:
    """Return how many fetches are done, e-mails accepted, rounds with numbers made, and epochs flushed, so far."""
    [done] = one(upgrade.server, "SELECT count(*) FROM weir_fetches_fetch WHERE state = 'done'")
    [flushed] = one(upgrade.server, "SELECT count(*) FROM weir_notifications_flushedepoch")
    return [done, upgrade.mails.received().total(), len(upgrade.fleet.rounds()), flushed]


def unfinished(server: Server) -> int:
    [found] = one(
        server,
        "SELECT (SELECT count(*) FROM weir_fetches_fetch WHERE state IN ('queued', 'reserved', 'running'))"
        " + (SELECT count(*) FROM weir_mail_email WHERE state IN ('pending', 'claimed', 'sending'))",
    )
    return found


def by_state(server: Server, table: str) -> dict[object, object]:
    return {row[0]: row[1] for row in server.query(f"SELECT state, count(*) FROM {table} GROUP BY state")}


def one(server: Server, statement: str) -> list[int]:
    [row] = server.query(statement)
    return [int(str(number)) for number in row]


def judge(upgrade: Upgrade) -> None:
    """Print what the sites, the mail server and the rows say, and assert it."""
    rounds = upgrade.fleet.rounds()
    arrivals, _ = site_log.read_arrivals(upgrade.sites.log)
    intervals = {name.partition(":")[0]: 1 / rate for name, rate in upgrade.fleet.rates.items()}
    asked, requests = sum(line["asked"] for line in rounds), Counter((a.host, a.path) for a in arrivals)
    fetches, emails = by_state(upgrade.server, "weir_fetches_fetch"), by_state(upgrade.server, "weir_mail_email")
    wrong = [line["wrong"] for line in rounds if line["wrong"]]
    accepted = judging.accepted(upgrade.mails)
    sent = {str(row[0]) for row in upgrade.server.query("SELECT message_id FROM weir_mail_email WHERE state = 'sent'")}
    early = judging.early(arrivals, intervals)
    print(
        f"\n{asked} URLs, {len(arrivals)} requests, {early} early, {fetches}; {len(rounds)} "
        f"rounds of web code, {len(wrong)} with a wrong number; {len(accepted)} e-mails accepted, {emails}\n"
        "stood still at most: "
        f"fetches {upgrade.longest_gap([arrival.at_ns / 1e9 for arrival in arrivals])}, "
        f"e-mails {upgrade.longest_gap([event.at_ns / 1e9 for event in accepted])}, "
        f"web code {upgrade.longest_gap([line['at'] for line in rounds])}"
    )
    assert early == 0
    assert fetches == {"done": asked}
    assert set(requests.values()) == {1}
    assert len(requests) == asked
    assert wrong == []
    assert emails == {"sent": len(rounds)}
    assert {event.message_id for event in accepted} == sent
    assert judging.twice(accepted) == set()
    assert said(upgrade.fleet) == {}


def said(fleet: Fleet) -> dict[str, list[str]]:
    """Return, by process, the lines with a traceback, or of a level that asks for a person."""
    found = {}
    for process in fleet.ended + fleet.running:
        lines = process.log.read_text(errors="replace").splitlines()
        if bad := [line for line in lines if re.search(r"Traceback|\"level\": \"(error|critical)\"", line)]:
            found[process.log.name] = bad
    return found
