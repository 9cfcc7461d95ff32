"""A cluster of real processes: workers, fetchers and beat, on a broker of their own, against fake sites."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from demo.fakes import site_log, sites
from demo.fakes.children import die_with_parent
from project import embedded
from project.processes import procfile
from tests.acceptance import networks
from tests.forked import Forked
from tests.servers import database_url
from tests.waiting import wait_for
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings
from weir.workers.fetches.models import Fetch

ALLOW_NETS = "127.1.0.0/16"
CELERY = (sys.executable, "-m", "celery")


def _commands() -> dict[str, list[str]]:
    """Return what the Procfile hands to Celery for each kind of process, but for the name."""
    return {
        kind: shlex.split(found[1])
        for kind, line in procfile.lines().items()
        if (found := re.fullmatch(r"celery -A project (.*?)(?: --hostname \S+)?", line))
    }


COMMANDS = _commands()
READY = {kind: "beat_holds_lease" if kind == "beat" else "ready." for kind in COMMANDS}


@dataclass(kw_only=True)
class Cluster:
    """The processes, by name, and the broker, which a test may stop."""

    folder: Path
    broker_home: Path
    environment: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes] | Forked] = field(default_factory=dict)
    broker: ExitStack = field(default_factory=ExitStack)
    launched: set[str] = field(default_factory=set)  # the names of all processes, also of those that have ended

    def start_broker(self) -> None:
        """Start the broker, empty as it has no memory on disk."""
        self.broker.enter_context(embedded.servers(self.broker_home, postgres=False, durable=False))

    def stop_broker(self) -> None:
        """Stop the broker: no process listens on its socket any more."""
        self.broker.close()

    def start(self, kind: str, name: str, *options: str, celery: Sequence[str] = CELERY) -> None:
        """Start one process, in a group of its own that ends when we do, and wait until it works."""
        self.launch(kind, name, *options, celery=celery)
        self.wait_until_ready(kind, name)

    def start_together(self, *names: str, celery: Sequence[str] = CELERY) -> None:
        """Start processes at once; each name is a kind, or begins with one and a hyphen."""
        for name in names:
            self.launch(name.partition("-")[0], name, celery=celery)
        for name in names:
            self.wait_until_ready(name.partition("-")[0], name)

    def launch(self, kind: str, name: str, *options: str, celery: Sequence[str] = CELERY) -> None:
        """Start one process without waiting for it; `celery` is the command that Celery's arguments are added to."""
        command = [*celery, "-A", "project", *COMMANDS[kind]]
        if kind != "beat":
            command += ["--hostname", f"{name}@%h"]
        command += options
        self.launched.add(name)
        with self.log(name).open("wb") as output:
            self.processes[name] = self._begin(command, output)

    def _begin(self, command: Sequence[str], output: IO[bytes]) -> "subprocess.Popen[bytes] | Forked":
        if command[: len(CELERY)] == list(CELERY):
            return Forked(
                *command[1:], environment=self.environment, output=output, start_new_session=True, of_weir=True
            )
        return subprocess.Popen(
            command,
            env=self.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
        )

    def wait_until_ready(self, kind: str, name: str) -> None:
        """Wait until a process that was launched works."""
        log = self.log(name)
        wait_for(lambda: READY[kind] in log.read_text(errors="replace"), 30, f"{name}: {log}")

    def log(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self.folder / f"{name}.log"

    def logged(self, event: str) -> list[str]:
        """Return the lines with this event that the processes have logged, at the level that is the default."""
        lines = "".join(self.log(name).read_text(errors="replace") for name in self.processes).splitlines()
        return [line for line in lines if f'"event": "{event}"' in line]

    def kill(self, name: str) -> None:
        """End a process with SIGKILL."""
        self.processes[name].kill()
        self.processes.pop(name).wait()

    def stop(self) -> None:
        """Kill what still runs, with the children of pools: no test is about what they would do until their end."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.broker.close()


@pytest.fixture(scope="session")
def broker_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the brokers, of which one runs at a time: clusters have one environment (tests.forked)."""
    return tmp_path_factory.mktemp("broker")


@pytest.fixture
def cluster(
    transactional_db: None,  # noqa: ARG001  must come first
    tmp_path: Path,
    broker_home: Path,
    settings: Settings,
) -> Iterator[Cluster]:
    """A cluster with a broker, and no process yet, on the test database; this process may ask for what it may fetch."""
    settings.WEIR_FETCH_ALLOW_NETS = [ALLOW_NETS, networks.ALLOW_NETS]
    call_command("sync_schedule")
    made = Cluster(
        folder=tmp_path,
        broker_home=broker_home,
        environment={
            **os.environ,
            "DATABASE_URL": database_url(connection.settings_dict["NAME"]),
            "REDIS_URL": f"unix://{embedded.valkey_socket(broker_home)}",
            "WEIR_FETCH_ALLOW_NETS": ALLOW_NETS,
            "WEIR_FETCH_TIMEOUT": "3",
            "WEIR_FETCH_CONNECT_TIMEOUT": "2",
            "WEIR_FETCH_DNS_TIMEOUT": "1",
            "SKIP_CHECKS": "1",  # the settings are those of the tests: each process starts sooner
        },
    )
    made.start_broker()
    try:
        yield made
    finally:
        made.stop()


def set_rates(running: sites.Sites, rates: Mapping[str, str]) -> dict[str, float]:
    """Give each site its rate; returns the intervals in seconds, by the names in the sites' log."""
    for host, rate in rates.items():
        site_settings.set_rate(f"{host}:{running.port}", rate)
    return {host: parse_rate(rate).total_seconds() for host, rate in rates.items()}


def states() -> Counter[str]:
    """Return how many fetches are in each state."""
    return Counter(Fetch.objects.values_list("state", flat=True))


def all_ended() -> bool:
    """Tell whether no fetch will change any more."""
    return not Fetch.objects.unfinished().exists()


def wait_for_progress(more: int, seconds: float, what: str, *, since: int | None = None) -> None:
    """Return when `more` fetches are done than now, or than the number that were at an earlier moment, `since`."""
    goal = (states()["done"] if since is None else since) + more
    wait_for(lambda: states()["done"] >= goal, seconds, what)


def used_share(arrivals: list[site_log.Arrival], intervals: Mapping[str, float], from_ns: int, until_ns: int) -> float:
    """Return the share of what all rates together allow in a window that the sites saw."""
    window_s = (until_ns - from_ns) / 1e9
    seen = Counter(arrival.host for arrival in arrivals if from_ns <= arrival.at_ns < until_ns)
    return sum(seen[host] * interval for host, interval in intervals.items()) / (window_s * len(intervals))


__all__ = [
    "Cluster",
    "all_ended",
    "set_rates",
    "states",
    "used_share",
    "wait_for_progress",
]
