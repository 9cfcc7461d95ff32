"""The clock of a beat's host is stepped, at several moments of its life: it goes on, and tasks are due as before.

Each step has a beat of its own, with a database of its own: all begin at once. `tests/wrong_clock.py` has the clock, as
Python sees it; PostgreSQL's is right. Nobody takes the messages but this test, which so knows when each was sent.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Self

import psycopg
import pytest
import redis
from django.db import connection
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from project import embedded
from tests.acceptance.broker_faults import frozen
from tests.acceptance.conftest import Cluster
from tests.servers import database_url
from tests.waiting import wait_for
from weir.workers import task_names

AT_LENGTH = "WEIR_FAULTS" in os.environ
STEPS_H = range(-6, 7) if AT_LENGTH else (-6, 6)
MOMENTS = ("starts", "has the lease", "has sent", "waits for the broker", "stands by")
SILENT_FOR_S = 10.0
SETTLED_S = 8.0
QUEUE = "users"
OVERDUE, DUE = "overdue", "due"
pytestmark = [pytest.mark.alone, pytest.mark.faults]


@dataclass(kw_only=True)
class Stepped:
    """A beat whose host's clock is wrong by as many hours as its file says, and what it has sent."""

    hours: int
    number: int  # of its database in Redis
    database: str
    file: Path
    dispatched_at: list[float] = field(default_factory=list)  # of time.monotonic()
    users: list[str] = field(default_factory=list)  # users' tasks
    left_s: list[float] = field(default_factory=list)  # until each message of theirs expires

    def set(self, hours: int) -> None:
        """Step the clock."""
        new = self.file.with_suffix(".new")
        new.write_text(str(hours * 3600))
        new.rename(self.file)

    def names(self) -> Counter[str]:
        """Return how often which task of a user was sent."""
        return Counter(self.users)

    def longest_silence_s(self, since: float) -> float:
        """Return the longest time without a message for dispatch, from one moment until now."""
        moments = [since, *(at for at in self.dispatched_at if at > since), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(moments))


@dataclass(kw_only=True)
class Beats:
    """All beats of a test, and a thread that takes what they send."""

    cluster: Cluster
    all: list[Stepped]
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self, name: str, *, wrong: bool = False) -> None:
        """Start a process for each; its clock is right, or wrong from the start."""
        environment = self.cluster.environment
        for one in self.all:
            one.set(one.hours if wrong else 0)
            environment["DATABASE_URL"] = database_url(one.database)
            environment["REDIS_URL"] = f"unix://{embedded.valkey_socket(self.cluster.broker_home)}?db={one.number}"
            environment["WEIR_LIVENESS_DIR"] = str(self.cluster.folder)
            environment["HONCHO_PROCESS_NAME"] = f"{name}-{one.number}"
            command = (sys.executable, "-m", "tests.wrong_clock", str(one.file), "celery")
            self.cluster.launch("beat", f"{name}-{one.number}", celery=command)

    def wait(self, name: str, event: str) -> None:
        """Wait until all processes of this name have logged that."""
        for one in self.all:
            log = self.cluster.log(f"{name}-{one.number}")
            wait_for(lambda log=log: event in log.read_text(errors="replace"), 60, f"{event}: {log}")  # type: ignore[misc]

    def wait_until_they_turn(self, name: str) -> None:
        """Wait until all processes of this name have shown life."""
        for one in self.all:
            file = f"{name}-{one.number}@*"
            wait_for(lambda file=file: [*self.cluster.folder.glob(file)], 60, file)  # type: ignore[misc]

    def step(self, *, back: bool = False) -> None:
        """Step the clocks of all at once."""
        for one in self.all:
            one.set(0 if back else one.hours)

    def wait_until_sent(self, task: str) -> None:
        """Wait until all have sent a task of the user's."""
        wait_for(lambda: all(task in one.names() for one in self.all), 120, f"{task}: {self.names()}")

    def names(self) -> list[Counter[str]]:
        """Return how often which task of a user was sent, of each."""
        return [one.names() for one in self.all]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _take(self) -> None:
        path = str(embedded.valkey_socket(self.cluster.broker_home))
        clients = [redis.Redis(unix_socket_path=path, db=one.number, socket_timeout=1) for one in self.all]
        while not self._stop.wait(0.05):
            for one, client in zip(self.all, clients, strict=True):
                with suppress(redis.RedisError):  # it is frozen, for some seconds
                    self._note(one, client)

    def _note(self, one: Stepped, client: redis.Redis) -> None:
        for queue in ("weir.ticks", QUEUE):
            while message := client.rpop(queue):
                headers = json.loads(str(message, "utf-8"))["headers"]  # type: ignore[arg-type]
                if queue == QUEUE:
                    one.users.append(headers["periodic_task_name"])
                    expires = datetime.fromisoformat(headers["expires"])
                    one.left_s.append((expires - datetime.now(UTC)).total_seconds())
                elif headers["task"] == task_names.DISPATCH:
                    one.dispatched_at.append(time.monotonic())


@pytest.mark.parametrize("moment", MOMENTS if AT_LENGTH else MOMENTS[::4])
def test_no_step_of_its_hosts_clock_holds_up_beat(cluster: Cluster, tmp_path: Path, moment: str) -> None:
    """Dispatch is called each second, and users' tasks are sent once, when they are due."""
    due = _schedule_users_tasks()
    with _databases(len(STEPS_H)) as copies:
        all_beats = [
            Stepped(hours=hours, number=number, database=copy, file=tmp_path / f"clock-{number}")
            for number, (hours, copy) in enumerate(zip(STEPS_H, copies, strict=True))
        ]
        with Beats(cluster=cluster, all=all_beats) as beats:
            since = _step_at(moment, beats)
            until = (
                due + timedelta(seconds=SETTLED_S) if AT_LENGTH else datetime.now(UTC) + timedelta(seconds=SETTLED_S)
            )
            wait_for(lambda: datetime.now(UTC) > until, 180, "the time itself")
            silences = {one.hours: round(one.longest_silence_s(since), 1) for one in beats.all}
        cluster.stop()
    print(f"\n{moment}: longest silence {max(silences.values())} s, by hours {silences}; sent {beats.names()}")
    expected = Counter({OVERDUE: 1, DUE: 1} if AT_LENGTH else {OVERDUE: 1})
    assert beats.names() == [expected] * len(STEPS_H)
    assert {hours: silence_s for hours, silence_s in silences.items() if silence_s > SILENT_FOR_S} == {}
    assert {int(left_s / 10) for one in beats.all for left_s in one.left_s} == {5}, "each expires within a minute"


def _step_at(moment: str, beats: Beats) -> float:
    """Let all beats live until this moment, and step their clocks; returns when they are to send at the latest."""
    beats.start("beat", wrong=moment == "starts")
    beats.wait("beat", "beat_holds_lease")
    if moment == "has the lease":
        beats.step()
        return time.monotonic()
    beats.wait_until_sent(OVERDUE)
    if moment == "waits for the broker":
        with frozen(beats.cluster):
            beats.wait("beat", "beat_waits_for_broker")
            beats.step()
        return time.monotonic()
    if moment == "stands by":
        beats.start("beat-2")
        beats.wait_until_they_turn("beat-2")
    beats.step(back=moment == "starts")
    if moment == "stands by":
        for one in beats.all:
            beats.cluster.kill(f"beat-{one.number}")
    return time.monotonic()


@contextmanager
def _databases(count: int) -> Iterator[list[str]]:
    """Provide copies of the tests' database."""
    name = str(connection.settings_dict["NAME"])
    connection.close()
    copies = [f"{name}_clock_{number}" for number in range(count)]
    with psycopg.connect(database_url("postgres"), autocommit=True) as server:
        for copy in copies:
            server.execute(f"DROP DATABASE IF EXISTS {copy}")
            server.execute(f"CREATE DATABASE {copy} TEMPLATE {name} STRATEGY wal_log")
        try:
            yield copies
        finally:
            for copy in copies:
                server.execute(f"DROP DATABASE {copy} WITH (FORCE)")


def _schedule_users_tasks() -> datetime:
    """Schedule tasks at each hour of half a day; returns when the one is due that is to be sent next."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    due = now + timedelta(minutes=2)
    _daily(OVERDUE, now - timedelta(minutes=1), ran_days_ago=1)
    for hours in range(-6, 7):
        at = due + timedelta(hours=hours)
        _daily(f"{hours:+d} h" if hours else DUE, at, ran_days_ago=1 if hours >= 0 else 0)
    return due


def _daily(name: str, at: datetime, *, ran_days_ago: int) -> None:
    crontab = CrontabSchedule.objects.create(minute=at.minute, hour=at.hour, timezone="UTC")
    ran_at = at - timedelta(days=ran_days_ago)
    given = {"task": "shop.nightly", "queue": QUEUE, "expire_seconds": 60, "last_run_at": ran_at}
    PeriodicTask.objects.create(name=name, crontab=crontab, **given)
