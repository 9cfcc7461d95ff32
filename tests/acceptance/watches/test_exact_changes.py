"""SIGKILL, again and again: `on_change` is called for each change that a fetch saw, and for nothing else."""

import json
import os
import random
import threading
from base64 import b64decode
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import redis

from project import embedded
from tests.acceptance.conftest import Cluster, all_ended, wait_for_progress
from tests.answering import answering
from tests.waiting import wait_for
from weir.ratelimit import site_settings
from weir.workers import task_names
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import watch_many

IS_LONG = "WEIR_FAULTS" in os.environ
KILLS = 60 if IS_LONG else 3
KILLED = ("ticks", "fetcher-1", "fetcher-2", *(["beat"] if IS_LONG else []))  # beat's lease would be waited for
TASK = "elsewhere.page_changed"  # another service's, so its messages stay in the broker
PAGES = 24
MORE = 6  # changes before each kill
HOST = "127.1.0.1"
ANSWER = "X-Answer"


class Pages(ThreadingHTTPServer):
    """A site whose pages change at random while they are asked for. It numbers its answers, and keeps versions."""

    daemon_threads = True

    def __init__(self) -> None:
        self.chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  which pages change
        self.lock = threading.Lock()
        self.versions: dict[str, int] = {}
        self.answers: list[tuple[str, int]] = []
        self.changes = True
        super().__init__((HOST, 0), _Answers)

    def answer(self, path: str) -> tuple[int, int]:
        """Return the version of a page, and the number of the answer that has it."""
        with self.lock:
            has_changed = self.changes and self.chance.random() < 0.5
            self.versions[path] = self.versions.get(path, 0) + has_changed
            self.answers.append((path, self.versions[path]))
            return self.versions[path], len(self.answers) - 1


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Pages)
        if self.path == "/robots.txt":
            self._send(404, b"")
            return
        version, number = server.answer(self.path)
        etag = f'"{version}"'
        is_known = self.headers["If-None-Match"] == etag and not self.path.endswith("plain")
        headers = {ANSWER: str(number)} | ({} if self.path.endswith("plain") else {"ETag": etag})
        self._send(304 if is_known else 200, b"" if is_known else b"version %d" % version, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Write nothing."""


def calls(cluster: Cluster) -> list[int]:
    """Return the ids of the fetches that the waiting messages of TASK name."""
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as broker:
        waiting = [
            json.loads(message) for queue in broker.scan_iter(_type="list") for message in broker.lrange(queue, 0, -1)
        ]
    return [json.loads(b64decode(message["body"]))[0][0] for message in waiting if message["headers"]["task"] == TASK]


def expected(server: Pages) -> set[int]:
    """Return the fetches that saw another version than the one before, by the site's own list of its answers."""
    told: set[int] = set()
    known: dict[str, int] = {}
    for fetch in Fetch.objects.filter(is_robots=False, state=FetchState.DONE).order_by("finished_at", "pk"):
        [number] = [int(value) for name, value in fetch.headers if name == ANSWER]
        path, version = server.answers[number]
        assert fetch.url.endswith(path)
        if known.setdefault(path, version) != version:
            told.add(fetch.pk)
        known[path] = version
    return told


def wait_for_changes(more: int, what: str) -> None:
    """Return when so many more changes are stored than now."""

    def stored() -> int:
        return sum(Watch.objects.values_list("changes", flat=True))

    goal = stored() + more
    wait_for(lambda: stored() >= goal, 60, what)


def is_settled() -> bool:
    """Tell whether all ends are judged, and all calls are made."""
    return all_ended() and not Fetch.objects.filter(on_done_called_at=None).exclude(on_done="").exists()


@pytest.mark.faults
def test_each_change_that_a_fetch_saw_is_told_whatever_is_killed(cluster: Cluster) -> None:
    """Fetchers, the tick's worker and beat are killed while pages change; duplicates are told apart by the fetch."""
    with answering(Pages()) as server:
        base = f"http://{HOST}:{server.server_port}"
        site_settings.set_rate(f"{HOST}:{server.server_port}", "50/s")
        pages = [f"{base}/{number}{'plain' if number % 2 else ''}" for number in range(PAGES)]
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        assert watch_many(pages, every=timedelta(seconds=1), on_change=TASK) == PAGES
        killed: list[str] = []
        while len(killed) < KILLS:
            for name in server.chance.sample(KILLED, len(KILLED)):
                wait_for_changes(MORE, f"changes after {killed}")
                cluster.kill(name)
                killed.append(name)
                cluster.start_together(name)
        server.changes = False
        wait_for_progress(PAGES, 60, "the last versions")
        Watch.objects.update(next_at=None)
        wait_for(is_settled, 90, "all calls")
        told, those = calls(cluster), expected(server)
        print(f"\nkilled: {killed}  fetches: {Fetch.objects.count()}  changes: {len(those)}  calls: {len(told)}")
        assert set(told) == those
        assert len(those) >= KILLS * MORE
        assert not Fetch.objects.filter(on_done=task_names.KEEP_WATCH, on_done_called_at=None).exists()
        seen = dict(Watch.objects.values_list("url", "changes"))
        assert sum(seen.values()) == len(those)
