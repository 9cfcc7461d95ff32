"""One id, and spans with links, through real web, ticks, fetcher and mailer processes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from demo.fakes import mail_server, sites
from project.checkout import CHECKOUT
from tests.acceptance.conftest import Cluster, set_rates
from tests.collector import Collector, links_to
from tests.collector import running as running_collector
from tests.waiting import wait_for
from weir.workers.orders.models import Order

ID = "checkout-7f0c"


@pytest.fixture
def collector(cluster: Cluster) -> Iterator[Collector]:
    """Return a collector that the cluster's processes know."""
    with running_collector() as running:
        cluster.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": running.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        yield running


def start_web(cluster: Cluster) -> str:
    """Start a web process that has the view; returns its URL."""
    own = {"DJANGO_SETTINGS_MODULE": "tests.acceptance.project.asking_settings", "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "uvicorn", "project.asgi:application", "--port", "0", "--no-access-log"]
    with cluster.log("web").open("wb") as output:
        cluster.processes["web"] = subprocess.Popen(
            command, env={**cluster.environment, **own}, stdout=output, stderr=output, start_new_session=True
        )
    started = "Uvicorn running on "

    def url() -> str:
        return cluster.log("web").read_text().partition(started)[2].split(" ")[0]

    wait_for(url, 30, "the web process")
    return url()


def lines(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    """Return the lines of a process's log."""
    return [json.loads(line) for line in cluster.log(name).read_text().splitlines() if line.startswith("{")]


def named(cluster: Cluster, name: str) -> set[str]:
    """Return the events of the lines that have the id."""
    return {line["event"] for line in lines(cluster, name) if line.get("correlation_id") == ID}


def test_the_id_of_a_request_is_in_the_lines_of_all_processes(
    cluster: Cluster, collector: Collector, tmp_path: Any
) -> None:
    """A fetch and an e-mail that fail say who asked for them; their spans have links to the span that did."""
    with sites.running(1, tmp_path) as running, mail_server.running(tmp_path) as server:
        set_rates(running, {running.hosts[0]: "20/s"})
        cluster.environment |= {"EMAIL_HOST": mail_server.HOST, "EMAIL_PORT": str(server.port)}
        web = start_web(cluster)
        cluster.start_together("ticks", "fetcher", "mailer", "beat")
        order = Order.objects.create(number="1", customer_email="refuse.1@customers.example")
        query = urlencode({"url": running.url(0, "/status/500?token=s3cret"), "order": order.pk})
        with urlopen(Request(f"{web}/ask?{query}", headers={"X-Request-ID": ID}), timeout=20) as answer:  # noqa: S310
            assert answer.headers["X-Request-ID"] == ID
        wait_for(lambda: "fetch_failed" in named(cluster, "fetcher"), 30, "the fetcher's line")
        wait_for(lambda: "email_failed" in named(cluster, "mailer"), 30, "the mailer's line")
        assert "request_finished" in named(cluster, "web")
        assert named(cluster, "ticks") == named(cluster, "beat") == set()
        assert not [name for name in cluster.processes if "s3cret" in cluster.log(name).read_text()]
        assert len(lines(cluster, "web")) == len(cluster.log("web").read_text().splitlines()), "uvicorn's, too"
        wait_for(lambda: collector.named("fetch") and collector.named("send e-mail"), 20, "the spans")
        wait_for(lambda: collector.named("enqueue fetches") and collector.named("enqueue e-mail"), 20, "the spans")

    [asked], [queued] = collector.named("enqueue fetches"), collector.named("enqueue e-mail")
    # A start that missed its slot has a span too.
    assert {links_to(span, asked) for span in collector.named("fetch") if span.links} == {True}
    assert [links_to(span, queued) for span in collector.named("send e-mail")] == [True]
    assert {"GET /ask", "dispatch", "claim"} <= {span.name for span in collector.spans}
    assert len(collector.processes) >= 4
    assert b"s3cret" not in b"".join(collector.received)
