"""Everything that runs: both servers, the sites, the mail server, each kind of process, and web code of all jobs."""

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import psycopg
import redis
from django.db import InterfaceError, OperationalError, connection

from demo.fakes import sites
from demo.fakes.mail_server import MailServer
from tests import own_servers
from tests.acceptance import all_jobs, web_process
from tests.acceptance.conftest import Cluster
from tests.acceptance.faults import faults
from tests.acceptance.great_run.crowd import TABLE, Crowd, Place
from tests.own_servers import Server
from tests.valkeys import Valkey, free_port, valkeys
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings

NAMES = (
    *("worker", "ticks", "maintenance", "fetcher-1", "fetcher-2", "fetcher-3", "mailer-1", "mailer-2"),
    *("beat-1", "beat-2", "web"),
)
RATES = ("1/s", "2/s", "4/s")
CROWD = {"producer": 4, "holder": 2, "visitor": 1}
SESSIONS = 140
SERVER = {
    "fsync": "off",  # what is written to the kernel outlives SIGKILL; each COMMIT still writes, unlike "not durable"
    "max_connections": str(SESSIONS),
    "max_wal_size": "256MB",
    "checkpoint_timeout": "60s",
    "log_min_error_statement": "panic",
    "log_min_messages": "log",
}
# The times of RFC 5321 are minutes; here an e-mail whose mailer was killed is `unknown` after some seconds.
SOONER = {
    "EMAIL_TIMEOUT": "3",
    "WEIR_MAIL_COMMAND_TIMEOUT": "2",
    "WEIR_MAIL_REPLY_TIMEOUT": "4",
    "WEIR_MAIL_LEASE": "8",
    "WEIR_MAIL_UNKNOWN_AFTER": "10",
    "WEIR_MAIL_DOMAIN_RATE": "40/s",  # what is set is kept where a server refuses for now; all orders have one domain
    "WEIR_UNREAD_CAP": "200",
    "WEIR_NOTIFICATION_RETENTION": "300",
    "WEIR_SLOT_RETENTION": "600",
}
Answer = TypeVar("Answer")
ASKS_AGAIN_S = 0.2
ANSWERS_WITHIN_S = 60.0


@dataclass(kw_only=True)
class Stage:
    """What runs. `tend` starts what has ended by itself, and counts it in `restarts`."""

    cluster: Cluster
    server: Server
    valkey: Valkey
    sites: sites.Sites
    mails: MailServer
    crowd: Crowd
    intervals: dict[str, float]
    commits: Path
    web_port: int
    restarts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    groups: set[int] = field(default_factory=set)

    # --- processes ----------------------------------------------------------------------------------------------------

    def launch(self, name: str) -> None:
        """Start a process without waiting for it. What it logged before is counted, and gone."""
        self.look_at_log(name)
        if name == "web":
            self._launch_web()
        else:
            self.cluster.launch(kind_of(name), name)
        self.groups.add(self.cluster.processes[name].pid)

    def _launch_web(self) -> None:
        with self.cluster.log("web").open("wb") as output:
            self.cluster.processes["web"] = web_process.forked(
                self.web_port, self.cluster.environment, output, start_new_session=True
            )

    def start_all(self) -> None:
        for name in NAMES:
            self.launch(name)
        for name in NAMES:
            if name != "web" and kind_of(name) != "beat":
                self.cluster.wait_until_ready(kind_of(name), name)
        self.start_crowd(*CROWD)

    def start_crowd(self, *roles: str) -> None:
        for role in roles:
            for _ in range(CROWD[role]):
                self.crowd.start(role)

    def tend(self) -> None:
        """Start what has ended by itself."""
        self._tend_postgres()
        for name, process in list(self.cluster.processes.items()):
            if process.poll() is not None:
                self.restarts[kind_of(name)] += 1
                self.launch(name)
        for role in self.crowd.ended():
            self.restarts[role] += 1
            self.crowd.start(role)

    def _tend_postgres(self) -> None:
        """Start PostgreSQL where its first process has ended: so it does where the one that recovers was killed."""
        if self.server.process and self.server.process.poll() is not None:
            self.restarts["PostgreSQL"] += 1
            self.server.kill()
            self.server.start()

    def pid(self, kind: str) -> int:
        """Return that of the process with this name."""
        return self.cluster.processes[kind].pid

    def left_over(self) -> list[str]:
        """Return the command lines of those whose parent was killed long ago, and who have not ended."""
        current = {process.pid for process in self.cluster.processes.values()}
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                group = os.getpgid(process.pid)
                if group in self.groups - current and "celery" in (words := " ".join(process.cmdline())):
                    found.append(f"{process.pid} {words}")
        return found

    def look_at_log(self, name: str) -> None:
        """Count the errors that a process has logged so far, and keep an example of each."""
        with suppress(FileNotFoundError):
            for line in self.cluster.log(name).read_text(errors="replace").splitlines():
                if '"level": "error"' in line or '"level": "critical"' in line:
                    what = f"{kind_of(name)}: {_event(line)}"
                    self.errors[what] += 1
                    self.examples.setdefault(what, line)

    # --- servers ------------------------------------------------------------------------------------------------------

    @property
    def sockets(self) -> Path:
        """Return the folder of PostgreSQL's socket."""
        return self.server.folder

    def broker(self) -> redis.Redis:
        """Return a client of the broker."""
        return redis.Redis(port=self.valkey.port, socket_timeout=5)

    def postgres_processes(self) -> list[psutil.Process]:
        """Return PostgreSQL's processes, the first one first."""
        return self.server._processes()

    def query(self, *statements: str) -> None:
        """Let PostgreSQL do something, whatever its sessions may do by default; wait for it where it recovers."""
        self.asked(lambda: faults.execute(self.sockets, *statements))

    def asked(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer to a question to PostgreSQL, asked again while it recovers."""
        give_up_at = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            try:
                return question()
            except (OperationalError, InterfaceError, psycopg.OperationalError):
                connection.close()
                self._tend_postgres()
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(ASKS_AGAIN_S)


def kind_of(name: str) -> str:
    """Return the kind of the process with this name."""
    return name.partition("-")[0]


def _event(line: str) -> str:
    """Return what a line of a log is about, without what differs each time."""
    try:
        logged = json.loads(line)
    except ValueError:
        return line[:60]
    error = str(logged.get("exception") or "").strip()
    last = re.findall(r"^[\w.]+(?:Error|Exception|Lost\w*|Shutdown)\b.*", error, re.MULTILINE)[-1:]
    said = " ".join([str(logged.get("event")), *last])
    return " ".join(re.sub(r"[0-9a-f-]{36}|\d+|weir-servers-\w+", "N", said).split())[:160]


@contextmanager
def running(cluster: Cluster, site_count: int, chance: random.Random) -> Iterator[Stage]:
    """Run everything, on servers of its own; nothing runs when the block is left."""
    with ExitStack() as leaving:
        server = leaving.enter_context(own_servers.primary(SERVER))
        valkey = leaving.enter_context(valkeys(cluster.folder / "valkeys")).start("--appendonly", "yes")
        cluster.stop_broker()
        cluster.environment |= {**SOONER, "REDIS_URL": f"redis://{valkey.place}/0", "PYTHONUNBUFFERED": "1"}
        leaving.enter_context(all_jobs.on(cluster, str(server.folder)))
        mails = leaving.enter_context(all_jobs.mails(cluster))
        faked = leaving.enter_context(sites.running(site_count, cluster.folder, body_size=200))
        rates = {host: RATES[place % len(RATES)] for place, host in enumerate(faked.hosts)}
        for host, rate in rates.items():
            site_settings.set_rate(f"{host}:{faked.port}", rate)
        intervals = {host: parse_rate(rate).total_seconds() for host, rate in rates.items()}
        with connection.cursor() as cursor:
            cursor.execute(TABLE)
        place = Place(
            rates={host: 1 / interval for host, interval in intervals.items()},
            site_port=faked.port,
            web_port=free_port(),
            commits=str(cluster.folder / "commits"),
            log=str(cluster.folder / "crowd.log"),
        )
        Path(place.commits).touch()
        crowd = Crowd(place, cluster.environment, chance)
        leaving.callback(crowd.close)
        yield Stage(
            cluster=cluster,
            server=server,
            valkey=valkey,
            sites=faked,
            mails=mails,
            crowd=crowd,
            intervals=intervals,
            commits=Path(place.commits),
            web_port=place.web_port,
        )
