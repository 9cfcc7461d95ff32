"""SIGKILL, again and again: a reader of the event log misses no end, and sees none as two."""

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from demo.fakes import sites
from demo.fakes.children import die_with_parent
from tests.acceptance import web_process
from tests.acceptance.conftest import Cluster, all_ended, set_rates
from tests.acceptance.events import reader
from tests.programs import token
from tests.waiting import wait_for
from weir.workers.events import log
from weir.workers.fetches.enqueue import request_fetches

IS_LONG = "WEIR_FAULTS" in os.environ
ENDS: Final = 100_000 if IS_LONG else 1_000  # fetches that transactions end; fetchers end some more
EMAILS: Final = ENDS // 10
FETCHED: Final = 4_000 if IS_LONG else 60
KILLS: Final = 60 if IS_LONG else 3
KILLED: Final = ("fetcher-1", "readers", "web-1", *(["ticks", "fetcher-2", "web-2"] if IS_LONG else []))
THREADS: Final = 6
MOST: Final = 60  # ends of one transaction
SITES: Final = 8
FEEDS: Final = ("fetches/ended", "emails/ended")
# Notes each end by itself: one row at a time, as the rows change, in the same transaction.
NOTED = """
    CREATE TABLE test_ends (subject text, id bigint, state text, at timestamptz);
    CREATE FUNCTION test_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO test_ends VALUES (TG_ARGV[0], NEW.id, NEW.state, (to_jsonb(NEW) ->> TG_ARGV[1])::timestamptz);
        RETURN NULL;
    END $$;
    CREATE TRIGGER test_ended AFTER UPDATE ON weir_fetches_fetch FOR EACH ROW
    WHEN (NEW.state IN ('done', 'failed', 'cancelled') AND OLD.state IS DISTINCT FROM NEW.state AND NOT NEW.is_robots)
    EXECUTE FUNCTION test_note_end('fetch', 'finished_at');
    CREATE TRIGGER test_ended AFTER UPDATE ON weir_mail_email FOR EACH ROW
    WHEN (NEW.state IN ('failed', 'cancelled') AND OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION test_note_end('email', 'ended_at')
"""
END_FETCHES = "UPDATE weir_fetches_fetch SET state = 'cancelled', finished_at = clock_timestamp() WHERE id = ANY(%s)"
END_EMAILS = "UPDATE weir_mail_email SET state = 'cancelled', ended_at = clock_timestamp() WHERE id = ANY(%s)"


@contextmanager
def noted() -> Iterator[None]:
    """Have each end noted by a trigger of the test's."""
    with connection.cursor() as cursor:
        cursor.execute(NOTED)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION test_note_end CASCADE; DROP TABLE test_ends")


class Enders:
    """Ends fetches and e-mails in many transactions at once: some are rolled back, some stay open while others end."""

    def __init__(self, fetches: list[int], emails: list[int], seed: str) -> None:
        self.chance = random.Random(seed)  # noqa: S311  an order of ends
        self.left = [("fetch", each) for each in fetches] + [("email", each) for each in emails]
        self.chance.shuffle(self.left)
        self.committed = self.rolled_back = 0
        self.change = threading.Condition()

    def run(self) -> None:
        """End what is left; the last rows, too, which other threads may roll back."""
        with psycopg.connect(**_parameters()) as database:
            while taken := self._take():
                self._end(database, taken)

    def _take(self) -> list[tuple[str, int]]:
        with self.change:
            size = self.chance.randint(1, MOST)
            taken, self.left = self.left[-size:], self.left[:-size]
            return taken

    def _end(self, database: psycopg.Connection[Any], taken: list[tuple[str, int]]) -> None:
        for statement, subject in ((END_FETCHES, "fetch"), (END_EMAILS, "email")):
            database.execute(statement, [sorted(each for of, each in taken if of == subject)])
        with self.change:
            until = self.committed + self.chance.choice((0, 0, 1, 5))
            self.change.wait_for(lambda: self.committed >= until or not self.left, timeout=5)
            is_rolled_back = self.chance.random() < 0.2
        database.rollback() if is_rolled_back else database.commit()
        with self.change:
            if is_rolled_back:
                self.left = taken + self.left
                self.rolled_back += 1
            self.committed += 1
            self.change.notify_all()


def _parameters() -> dict[str, Any]:
    return {**connection.get_connection_params(), "cursor_factory": psycopg.Cursor}


def queued() -> tuple[list[int], list[int]]:
    """Return fetches and e-mails that nothing but a test ends."""
    later = timezone.now() + timedelta(days=1)
    fetches = request_fetches(
        ["https://a.example/"] * ENDS, not_before=later, reference=[f"page-{number}" for number in range(ENDS)]
    )
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_mail_email (
                kind, key, state, message_id, attempts, claimed_by, phase, last_reply, correlation_id, traceparent,
                next_attempt_at
            )
            SELECT 'note', number::text, 'pending', number::text, 0, '', '', '', '', '', clock_timestamp() + '1 day'
            FROM generate_series(1, %s) AS number RETURNING id
            """,
            [EMAILS],
        )
        return list(fetches.ids), [row[0] for row in cursor.fetchall()]


class Readers:
    """A reader of each feed, which can be killed, and goes on where it was."""

    def __init__(self, folder: Path, urls: list[str]) -> None:
        self.files = [folder / f"{path.partition('/')[0]}.jsonl" for path in FEEDS]
        self.arguments = (token(), urls)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.looked: Counter[Path] = Counter()  # bytes
        self.seen: set[int] = set()

    def start(self) -> None:
        secret, urls = self.arguments
        self.processes = [
            subprocess.Popen(
                [sys.executable, reader.__file__, str(file), secret, path, *urls],
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread of ours holds a lock that it needs
            )
            for file, path in zip(self.files, FEEDS, strict=True)
        ]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def events(self) -> list[dict[str, Any]]:
        """Return what they have read, in order, feed by feed."""
        return [event for file in self.files for answer in reader.answers(file) for event in answer["events"]]  # type: ignore[attr-defined]

    def ids(self) -> int:
        """Return how many different events they have read."""
        for file in filter(Path.exists, self.files):
            with file.open("rb") as written:
                written.seek(self.looked[file])
                new = written.read()
            whole = new[: new.rfind(b"\n") + 1]
            self.looked[file] += len(whole)
            self.seen.update(event["id"] for line in whole.splitlines() for event in json.loads(line)["events"])
        return len(self.seen)


def ends() -> Counter[tuple[str, int, str]]:
    """Return how often each fetch and e-mail has ended in each state."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT subject, id, state FROM test_ends")
        return Counter(cursor.fetchall())


def as_ends(events: list[dict[str, Any]]) -> Counter[tuple[str, int, str]]:
    return Counter(
        (name, event[name], event["state"]) for event in events for name in ("fetch", "email") if name in event
    )


@pytest.mark.faults
def test_no_end_is_missed_whatever_is_killed(cluster: Cluster, settings: Settings, tmp_path: Path) -> None:
    """Web processes, workers and readers are, while ends are committed in another order than they are written in."""
    seed = os.environ.get("WEIR_FAULTS_SEED", "weir")
    chance = random.Random(seed)  # noqa: S311  an order of kills
    settings.WEIR_EVENT_RETENTION = 86_400.0
    cluster.environment["WEIR_EVENT_RETENTION"] = "86400"
    log.keep()
    fetches, emails = queued()
    enders = Enders(fetches, emails, seed)
    with noted(), sites.running(SITES, tmp_path) as running, ThreadPoolExecutor(THREADS) as pool:
        set_rates(running, dict.fromkeys(running.hosts, "50/s"))
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        urls = {name: web_process.start(cluster, name) for name in ("web-1", "web-2")}
        readers = Readers(tmp_path, list(urls.values()))
        readers.start()
        request_fetches([running.url(each % SITES, f"/ok/{each}") for each in range(FETCHED)], max_attempts=100)
        ending = [pool.submit(enders.run) for _ in range(THREADS)]
        killed: Counter[str] = Counter()
        while killed.total() < KILLS:
            for name in chance.sample(KILLED, len(KILLED)):
                goal = readers.ids() + ENDS // (2 * KILLS)
                wait_for(lambda goal=goal: readers.ids() >= goal or not enders.left, 60, f"events after {killed}")  # type: ignore[misc]
                killed[name] += 1
                if name == "readers":
                    readers.kill()
                    readers.start()
                elif name.startswith("web"):
                    cluster.kill(name)
                    web_process.start(cluster, name, port=int(urls[name].rpartition(":")[2]))
                else:
                    cluster.kill(name)
                    cluster.start_together(name)
        for each in ending:
            each.result()
        wait_for(all_ended, 120, "the ends of all fetches")
        wait_for(lambda: readers.ids() >= ends().total(), 120, "the reading of all ends")
        readers.kill()
        found, rows = readers.events(), ends()
        by_id = {event["id"]: event for event in found}
        print(
            f"\nkilled: {dict(killed)}  ends: {rows.total()}  read: {len(found)}, {len(by_id)} ids"
            f"  rolled back: {enders.rolled_back}  answers: {sum(len(reader.answers(file)) for file in readers.files)}"
        )
        assert as_ends(list(by_id.values())) == rows
        assert all(by_id[event["id"]] == event for event in found)
        assert enders.rolled_back > 0
