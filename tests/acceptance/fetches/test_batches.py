"""SIGKILL, again and again: a batch's numbers equal a recount at each moment, and its task is called at its end."""

import json
import os
import random
from base64 import b64decode
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import pytest
import redis
from django.db import connection, transaction

from project import embedded
from tests.acceptance.conftest import Cluster
from tests.answering import answering
from tests.waiting import wait_for
from weir.ratelimit import site_settings
from weir.workers.fetches.batches.counts import all_counts
from weir.workers.fetches.cancelling import cancel, cancel_batch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import ACTIVE, Batch, Fetch
from weir.workers.fetches.retrying import retry_batch

IS_LONG = "WEIR_FAULTS" in os.environ
KILLS: Final = 60 if IS_LONG else 3
KILLED: Final = ("ticks", "fetcher-1", "fetcher-2", *(["beat"] if IS_LONG else []))  # beat's lease would be waited for
TASK: Final = "elsewhere.imported"  # another service's, so its messages stay in the broker
BATCHES: Final = 6
MORE: Final = 40  # fetches that are done before each kill
HOSTS: Final = ("127.1.0.1", "127.1.0.2", "127.1.0.3")


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(500 if self.path.endswith("bad") else 404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Write nothing."""


class Site(ThreadingHTTPServer):
    """A site that fails for some paths."""

    daemon_threads = True


def compare() -> int:
    """Compare the numbers of all batches with a recount in the same snapshot; returns how many are unfinished."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        shown = {
            (counts.name, name): getattr(counts, name)
            for counts in all_counts(Batch.objects.values_list("pk", flat=True))
            for name in ("unfinished", "done", "failed", "cancelled")
            if getattr(counts, name)
        }
        found = Counter(
            (batch, "unfinished" if state in ACTIVE else state)
            for batch, state in Fetch.objects.filter(batch__isnull=False).values_list("batch__name", "state")
        )
    assert shown == dict(found)
    return sum(number for (_, name), number in found.items() if name == "unfinished")


def called(cluster: Cluster) -> Counter[str]:
    """Return how often waiting messages of TASK name each batch."""
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as broker:
        waiting = [
            json.loads(message) for queue in broker.scan_iter(_type="list") for message in broker.lrange(queue, 0, -1)
        ]
    return Counter(
        json.loads(b64decode(message["body"]))[0][0] for message in waiting if message["headers"]["task"] == TASK
    )


def fill(port: int, more: int, chance: random.Random) -> None:
    """Ask for pages in each batch; take some back, singly and together, and retry what failed."""
    for number in range(BATCHES):
        urls = [
            f"http://{chance.choice(HOSTS)}:{port}/{chance.random()}{'bad' if chance.random() < 0.2 else ''}"
            for _ in range(more)
        ]
        fetches = request_fetches(
            [*urls, "nonsense"], batch=f"import-{number}", on_batch_done=TASK, max_attempts=2, dedupe=number % 2 == 0
        )
        cancel(chance.choice(fetches.ids))
    cancel_batch(f"import-{chance.randrange(BATCHES)}")
    retry_batch(f"import-{chance.randrange(BATCHES)}")


def is_settled() -> bool:
    return not compare() and not Batch.objects.filter(on_done_called_at=None).exists()


@pytest.mark.faults
def test_the_numbers_of_batches_are_exact_and_their_tasks_called_whatever_is_killed(cluster: Cluster) -> None:
    """While batches are filled, cancelled and retried; with a recount all the time."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  an order of kills
    with answering(Site(("0.0.0.0", 0), _Answers)) as server:  # noqa: S104  for several loopback addresses
        port = server.server_port
        for host in HOSTS:
            site_settings.set_rate(f"{host}:{port}", "100/s")
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        killed: list[str] = []
        compared = 0

        def compared_again(goal: int) -> bool:
            nonlocal compared
            unfinished = compare()
            compared += 1
            return not unfinished or Fetch.objects.filter(state="done").count() >= goal

        while len(killed) < KILLS:
            for name in chance.sample(KILLED, len(KILLED)):
                fill(port, 2 * MORE // BATCHES, chance)
                goal = Fetch.objects.filter(state="done").count() + MORE
                wait_for(lambda goal=goal: compared_again(goal), 60, f"fetches after {killed}")  # type: ignore[misc]  # mypy infers no type for it
                cluster.kill(name)
                killed.append(name)
                compare()
                cluster.start_together(name)
        wait_for(is_settled, 90, "the ends of all batches")
        calls = called(cluster)
        print(f"\nkilled: {killed}  compared: {compared}  fetches: {Fetch.objects.count()}  calls: {dict(calls)}")
        assert set(calls) == {f"import-{number}" for number in range(BATCHES)}
        for batch in Batch.objects.all():
            last = Fetch.objects.filter(batch=batch).order_by("-finished_at").values_list("finished_at", flat=True)[0]
            times = [last, batch.ended_at, batch.on_done_called_at]
            assert None not in times
            assert times == sorted(filter(None, times))
        assert compared > KILLS
