"""GET /metrics of several web processes: one truth, whichever of them Prometheus asks, and whichever was killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
from django.db.models import Count, Sum
from django.db.models.functions import Now
from prometheus_client.parser import text_string_to_metric_families

from demo.fakes import mail_server, sites
from project import embedded
from tests.acceptance import past, web_process
from tests.acceptance.conftest import Cluster, all_ended, set_rates
from tests.waiting import comes_true, in_time, wait_for
from weir.notifications.models import FlushedEpoch
from weir.ratelimit.models import Slot
from weir.workers.fetches.models import Fetch
from weir.workers.history.models import Watermark
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState

TOKEN = "a-long-random-text"  # noqa: S105  of the tests
WEBS = ("web-1", "web-2", "web-3")
MOST_SERIES = 114
PROMETHEUS_WAITS_S = 10.0
answer = partial(web_process.answer, shown=TOKEN)
Series = dict[tuple[str, tuple[str, ...]], float]

ASK = """
from weir.notifications import inbox
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.orders.models import Order
from weir.workers.orders.shipping import ship
request_fetches({urls!r})
for number in range({emails}):
    ship(Order.objects.create(number=f"{name}-{{number}}", customer_email=f"{name}.{{number}}@customers.example").pk)
inbox.notify_many(range(1, {users} + 1), "news", "Hello")
"""


@pytest.fixture
def told(cluster: Cluster) -> Cluster:
    """Return the cluster, whose web processes have a token."""
    cluster.environment |= {
        "WEIR_METRICS_TOKEN": TOKEN,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return cluster


def scraped(url: str) -> tuple[Series, Series]:
    """Return all series, and those of them that only grow."""
    status, text = answer(url)
    assert status == 200, text
    found: Series = {}
    growing: Series = {}
    for family in text_string_to_metric_families(text):
        samples = {(sample.name, tuple(sample.labels.values())): sample.value for sample in family.samples}
        found |= samples
        growing |= samples if family.type in {"counter", "histogram"} else {}
    return found, growing


def recounted() -> Series:
    """Count the rows of all minutes that are rolled up."""
    until = Watermark.objects.get().rolled_until
    outcomes = Fetch.objects.filter(finished_at__lt=until).values_list("state").annotate(Count("pk"))
    emails = Email.objects.filter(ended_at__lt=until).values_list("state").annotate(Count("pk"))
    slots = Slot.objects.filter(start_time__lt=until)
    late = Fetch.objects.filter(finished_at__lt=until, lateness_ms__isnull=False).count()
    return {
        **{("weir_fetches_ended_total", (state,)): number for state, number in outcomes},
        **{("weir_emails_ended_total", (state,)): number for state, number in emails},
        ("weir_slots_total", ("used",)): slots.exclude(finished_at=None).count(),
        ("slots", ()): slots.count(),
        ("weir_fetch_lateness_seconds_count", ()): late,
        ("weir_unread_flushed_users_total", ()): FlushedEpoch.objects.aggregate(Sum("users"))["users__sum"],
    }


def work(cluster: Cluster, running: sites.Sites, name: str, *, users: int) -> None:
    """Ask for 121 fetches, one of which fails, ten e-mails and some notifications, and wait for their end."""
    flushed = FlushedEpoch.objects.aggregate(sum=Sum("users"))["sum"] or 0
    urls = ["no URL", *(running.url(n % 2, f"/{name}/{n}") for n in range(120))]
    web_process.manage(cluster, "shell", "-c", ASK.format(urls=urls, emails=10, users=users, name=name))
    wait_for(all_ended, 60, "the fetches")
    wait_for(lambda: not Email.objects.exclude(state=EmailState.SENT).exists(), 60, "the e-mails")
    numbers = FlushedEpoch.objects.all()
    wait_for(lambda: numbers.aggregate(sum=Sum("users"))["sum"] == flushed + users, 60, "the flush")


def agree(urls: dict[str, str]) -> Series:
    """Return the counters of all processes once they are the same, and equal to a recount of rows."""
    expected = recounted()
    all_slots = expected.pop(("slots", ()))

    def are_right() -> bool:
        counters = [scraped(url)[1] for url in urls.values()]
        slots = sum(value for (name, _), value in counters[0].items() if name == "weir_slots_total")
        return (
            counters[0] == counters[1] == counters[2]
            and slots == all_slots
            and {key: counters[0].get(key) for key in expected} == expected
        )

    assert comes_true(are_right, 15, every_s=1), (expected, all_slots, [scraped(url)[1] for url in urls.values()])
    found, growing = scraped(urls[WEBS[0]])
    assert len(found) <= MOST_SERIES
    assert not any(value for (name, _), value in found.items() if name == "weir_scrape_errors")
    return growing


def test_counters_of_three_web_processes_are_one_truth(told: Cluster, tmp_path: Path) -> None:
    """They equal the rows, and never fall, neither between scrapes nor when a web process dies."""
    Watermark.objects.create(id=1, rolled_until=Now() - timedelta(minutes=1), epoch=0)
    with sites.running(2, tmp_path) as running, mail_server.running(tmp_path) as server:
        set_rates(running, dict.fromkeys(running.hosts, "20/s"))
        told.environment |= {"EMAIL_HOST": mail_server.HOST, "EMAIL_PORT": str(server.port)}
        urls = {name: f"{web_process.start(told, name)}/metrics" for name in WEBS}
        told.start_together("worker", "ticks", "maintenance", "fetcher", "mailer", "beat")
        work(told, running, "first", users=40)
        past.roll_up(told)
        first = agree(urls)
        assert first["weir_fetches_ended_total", ("done",)] == 120
        assert first["weir_fetches_ended_total", ("failed",)] == 1
        assert first["weir_emails_ended_total", ("sent",)] == 10

        told.kill(WEBS[1])
        urls[WEBS[1]] = f"{web_process.start(told, WEBS[1])}/metrics"
        anew = scraped(urls[WEBS[1]])[1]
        assert all(anew[key] >= value for key, value in first.items())

        work(told, running, "second", users=30)
        past.roll_up(told)
        second = agree(urls)
        assert all(second[key] >= value for key, value in anew.items())
        assert second["weir_fetches_ended_total", ("done",)] == 240
        assert second["weir_emails_ended_total", ("sent",)] == 20


def test_doors_and_format_of_a_real_web_process(told: Cluster) -> None:
    """Without the token it tells no figure, and Prometheus' own tool finds nothing to complain about."""
    url = f"{web_process.start(told, WEBS[0])}/metrics"
    assert answer(url, shown="wrong") == answer(url, shown="") == (401, "")
    assert answer(url, method="HEAD") == (200, "")
    status, text = answer(url, method="POST")
    assert (status, "weir_" in text) == (403, False)  # Django asks for a CSRF token before the view is asked
    told.environment["WEIR_METRICS_TOKEN"] = ""
    assert answer(f"{web_process.start(told, WEBS[1])}/metrics", shown="")[0] == 404
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=answer(url)[1], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.fixture
def own_database(told: Cluster, tmp_path: Path) -> Iterator[list[psutil.Process]]:
    """Give the cluster a PostgreSQL of its own; returns a list to which a test adds the processes it freezes."""
    home = tmp_path / "database"
    home.mkdir()
    frozen: list[psutil.Process] = []
    with embedded.servers(home, valkey=False, durable=False) as servers:
        user, name = embedded.DATABASE_USER, embedded.DATABASE_NAME
        told.environment["DATABASE_URL"] = f"postgresql://{user}@/{name}?host={servers.postgres_socket_dir}"
        web_process.manage(told, "migrate", "--no-input", "--verbosity", "0")
        main = psutil.Process(servers.postgres_pid)
        frozen += [main, *main.children(recursive=True)]
        try:
            yield frozen
        finally:
            thaw(frozen)
    embedded.discard(home)


def freeze(processes: list[psutil.Process]) -> None:
    """Stop a server in the middle of what it does; its sockets stay open."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)


def thaw(processes: list[psutil.Process]) -> None:
    """Let a server go on; processes of it that are gone are left out."""
    for process in processes:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


def errors(url: str) -> set[str]:
    """Return the parts that could not be read; an answer comes before Prometheus gives up."""
    began_at = time.monotonic()
    found: dict[Any, float] = scraped(url)[0]
    in_time(time.monotonic() - began_at < PROMETHEUS_WAITS_S, "the scrape was late")
    return {labels[0] for (name, labels), value in found.items() if name == "weir_scrape_errors" and value}


def test_a_frozen_database_holds_up_no_scrape(told: Cluster, own_database: list[psutil.Process]) -> None:
    """What Redis knows is told within Prometheus' time-out, and the rest as soon as the database goes on."""
    url = f"{web_process.start(told, WEBS[0])}/metrics"
    assert errors(url) == set()
    freeze(own_database[:1])  # this one accepts sessions; an existing session has a process of its own
    of_database = {"processes", "work", "unread", "database", "history"}
    wait_for(lambda: errors(url) == of_database, 30, "an answer without the database")
    signed_in = Request(url.removesuffix("metrics"), headers={"Cookie": "sessionid=of-somebody"})  # noqa: S310
    with pytest.raises(HTTPError, check=lambda error: b"/readyz" in error.read()), urlopen(signed_in, timeout=30):  # noqa: S310
        pass
    thaw(own_database[:1])
    wait_for(lambda: errors(url) == set(), 30, "an answer with the database")
