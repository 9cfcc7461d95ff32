"""The peer: Celery, one task a fetch, and a task type a site, each with its `rate_limit`. It verifies certificates.

Run as a script, it is the worker. The three arguments are the broker's URL, the rate of a site, and a file of sites,
one a line. `publish` is what an application would do.

Celery limits the rate of a task type within one worker. So 1,500 sites are 1,500 task types, all on one worker; two
workers would start twice as many. All that the documentation allows to turn off is off: results, events, gossip and
remote control. The pool is prefork with one process for each of two processors, which was faster than threads here. The
worker prefetches two tasks a site, so that a site that has to wait does not hold up others. Answers are discarded.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from celery import Celery

QUEUE = "peer"
PROCESSES = 2
MOST_SITES = 1_500
OPTIONS = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]

app = Celery("peer", set_as_current=False)
app.conf.update(
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
connections = urllib3.PoolManager(num_pools=MOST_SITES, retries=False)  # kept alive, one a site and process


def fetch(url: str) -> None:
    """Request the URL, and discard the answer."""
    connections.request("GET", url)


def publish(broker_url: str, urls: Iterable[str]) -> None:
    """Send one message a URL, over one connection."""
    app.conf.update(broker_url=broker_url)
    with app.producer_pool.acquire(block=True) as producer:
        for url in urls:
            app.send_task(str(urlsplit(url).hostname), (url,), producer=producer)


def work(broker_url: str, rate: str, sites: list[str]) -> None:
    """Fetch until killed."""
    app.conf.update(broker_url=broker_url, worker_prefetch_multiplier=2 * len(sites) // PROCESSES)
    for site in sites:
        app.task(name=site, rate_limit=rate)(fetch)
    app.worker_main(["worker", "--pool", "prefork", "--concurrency", str(PROCESSES), "--queues", QUEUE, *OPTIONS])


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text().split())
