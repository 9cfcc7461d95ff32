"""How the situations are made (situations.py), each at a site of its own.

`MADE` names those that happen in one run of a fetcher, in which other sites are healthy. The functions in the second
half make the others: they need a fetcher, or a process, of their own.
"""

import asyncio
import errno
import gzip
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urljoin

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import override_settings
from kombu.exceptions import OperationalError
from structlog.testing import capture_logs

from project.celery import app
from tests.forked import Forked
from tests.integration.conftest import PREAMBLE, database_now, environment_of_scripts
from tests.integration.fetcher import situation_sites as at
from tests.integration.fetcher.situation_sites import SituationSites
from tests.integration.fetcher.situations import FROZEN
from tests.waiting import in_time
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers import broker_link, task_names
from weir.workers.fetches import dispatch as dispatching
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http import lookup_shares, openings, reachability, session
from weir.workers.fetches.fetcher.http.attempt import Attempt
from weir.workers.fetches.fetcher.http.session import Session
from weir.workers.fetches.fetcher.results import outcomes, writer
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.fetcher.wire.connection import HttpConnection
from weir.workers.fetches.jobs import Event, FetchOutcome
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots.rules import origin_of
from weir.workers.processes.ending import EX_SOFTWARE
from weir.workers.processes.models import Process
from weir.workers.processes.status import SILENT_AFTER_S

TIMEOUT_S = 1.5  # for an answer; the runs take a little longer than that
CONNECT_TIMEOUT_S = 0.8
DNS_TIMEOUT_S = 1.2
ENDED_WITHIN_S = 40.0  # however busy the machine is
MAX_BODY = 100_000
LOOKAHEAD_S = 90.0  # dispatch reserves whatever is due within this time
SETTINGS = {
    "WEIR_FETCH_ALLOW_NETS": ["127.1.0.0/16"],
    "WEIR_FETCH_TIMEOUT": TIMEOUT_S,
    "WEIR_FETCH_CONNECT_TIMEOUT": CONNECT_TIMEOUT_S,
    "WEIR_FETCH_DNS_TIMEOUT": DNS_TIMEOUT_S,
    "WEIR_FETCH_MAX_BODY": MAX_BODY,
    "WEIR_DEFAULT_RATE": "10/s",
    "WEIR_LOOKAHEAD": LOOKAHEAD_S,
}
GRACE = timedelta(seconds=40)  # no fetch is too late, however busy the machine is
IN_BODY_S = 0.3  # after this the body has begun to come
HEALTHY = 40  # sites that are healthy meanwhile: one is looked up, connected to and answers every
HEALTHY_EVERY_S = 0.1
EVIDENCE_S = 5 * HEALTHY_EVERY_S  # how long a failure waits, if this is not what is tested


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What became of a fetch."""

    state: str
    attempts: int
    error: str
    status_code: int | None
    had_slot: bool
    slot_used: bool
    slot_released: bool
    slot_passed_on: bool
    site_rests: bool
    url: str
    events: tuple[str, ...]  # all log lines of the run


Do = Callable[[Fetch], object]
OK = at.http(b"200 OK", b"page")
# Pages whose answers cannot be read, from the beginning or the middle on, or cannot be stored.
OUT_OF_MEMORY, UNREADABLE, REFUSED = "/out-of-memory", "/unreadable", "/refused"
LOST_CALL = "shop.tasks.lost_call"
KNOWN_S, SLOWER_S = 0.7, 1.1  # how early the connections of a slow site are opened, and how long one takes then
SLOW_S = 0.9  # longer than a connection is opened ahead of its slot, and than the slot waits
AHEAD_S = 2.0
WAITS_S = 3.0
LATE_S = 0.3
LONG = [b"X-%d: " % number + b"x" * 60_000 for number in range(5)]  # headers


def nothing(_fetch: Fetch) -> None:
    """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """One fetch of a run in which other sites are healthy."""

    url: str
    first: str = ""  # is fetched in the run before, by the same fetcher
    is_due_in_both: bool = False  # is asked for, and made ready, in the run before
    before: Sequence[str] = ()  # are fetched before it, at the same site
    starts_in_s: float = 0.0
    interval_s: float = 0.1
    grace: timedelta | None = GRACE
    is_made_ready: Do = nothing  # before it gets its slot
    meanwhile: Do = nothing  # while it waits for its slot
    options: dict[str, Any] = field(default_factory=dict)


MADE: dict[str, Callable[[SituationSites], Made]] = {
    # DNS
    "the name does not exist (NXDOMAIN)": lambda sites: Made(url=sites.named(at.failing(socket.EAI_NONAME))),
    "the name has no address": lambda sites: Made(url=sites.named(at.failing(socket.EAI_NODATA))),
    "its name servers fail (EAI_AGAIN), other names are found": lambda sites: Made(
        url=sites.named(at.failing(socket.EAI_AGAIN))
    ),
    "its name servers do not answer in time, others do": lambda sites: Made(
        url=sites.named(at.slow(2 * DNS_TIMEOUT_S))
    ),
    "the resolver has no memory (EAI_MEMORY)": lambda sites: Made(url=sites.named(at.failing(socket.EAI_MEMORY))),
    "the resolver cannot open what it needs (EAI_SYSTEM)": lambda sites: Made(
        url=sites.named(at.failing(socket.EAI_SYSTEM))
    ),
    # Connecting
    "the site refuses the connection": lambda sites: Made(url=sites.closed_port()),
    "the site resets the TLS handshake": lambda sites: Made(url=https(sites.served(at.reset_at_once))),
    "the site closes the connection in the TLS handshake": lambda sites: Made(
        url=https(sites.served(at.close_in_the_handshake))
    ),
    "the site speaks no TLS": lambda sites: Made(url=https(sites.served(at.speak_at_once))),
    "the site's certificate is not valid": lambda sites: Made(url=sites.served(at.saying(OK), tls=True)),
    "the site does not answer in time, others do": lambda sites: Made(url=sites.silent()),
    "its TLS handshake does not end in time, others do": lambda sites: Made(
        url=https(sites.served(at.saying(b"", then="wait")))
    ),
    "its host is unreachable (EHOSTUNREACH), others are not": lambda sites: refusing(sites, errno.EHOSTUNREACH),
    "this host has no route for its kind of address (ENETUNREACH), but for the other": lambda sites: refusing(
        sites, errno.ENETUNREACH
    ),
    "all local ports are in use (EADDRNOTAVAIL)": lambda sites: refusing(sites, errno.EADDRNOTAVAIL),
    "this host has no address of its kind (EADDRNOTAVAIL), others are reached": lambda sites: Made(url=sites.foreign()),
    "the address is forbidden": lambda _sites: Made(url="http://10.0.0.1/"),
    "the port of an address is forbidden": lambda _sites: Made(url=f"http://{at.PUBLIC}:25/"),
    "the port of a name is forbidden, and networks are allowed": lambda sites: Made(url=sites.named(lambda: at.PUBLIC)),
    "the name resolves to forbidden addresses only": lambda sites: Made(url=sites.named(lambda: "10.0.0.2")),
    "the connection first takes longer than its slot can wait": lambda sites: Made(
        url=sites.named(at.slow(SLOW_S, sites.address())), starts_in_s=AHEAD_S, grace=None
    ),
    "five attempts could not connect, and this fetch waits": lambda sites: Made(
        **again(sites.closed_port(), 5), interval_s=0.6
    ),
    # What the process has run out of
    "no file descriptor is left in the process (EMFILE)": lambda sites: refusing(sites, errno.EMFILE),
    "no file descriptor is left on the host (ENFILE)": lambda sites: refusing(sites, errno.ENFILE),
    "the kernel has no buffer left (ENOBUFS)": lambda sites: refusing(sites, errno.ENOBUFS),
    "the kernel has no memory left (ENOMEM)": lambda sites: refusing(sites, errno.ENOMEM),
    "no memory is left for a connection (MemoryError)": lambda sites: Made(url=sites.failing_to_connect(MemoryError())),
    "no memory is left for an answer (MemoryError)": lambda sites: Made(url=sites.page(OUT_OF_MEMORY)),
    "no memory is left in the middle of a body": lambda sites: Made(
        url=sites.served(at.saying(OK[:-2], then="wait"), UNREADABLE)
    ),
    # Before the request is written
    "the message comes after its slots have passed": lambda sites: Made(url=sites.page("/ok"), grace=None),
    "the site is paused": lambda sites: Made(
        url=sites.page("/ok"), starts_in_s=WAITS_S, meanwhile=lambda fetch: site_settings.pause(site_of(fetch))
    ),
    "the site gets another rate": lambda sites: Made(
        url=sites.page("/ok"),
        starts_in_s=WAITS_S,
        meanwhile=lambda fetch: site_settings.set_rate(site_of(fetch), "1/h"),
    ),
    "the host gets a site of its own": lambda sites: Made(
        url=sites.covered(),
        starts_in_s=WAITS_S,
        meanwhile=lambda fetch: site_settings.set_rate(fetch.url.split("/")[2], "1/h"),
    ),
    "the site refuses another fetch (429)": lambda sites: Made(
        **again(sites.page("/ok"), 1, "/status/429"), interval_s=WAITS_S
    ),
    "the fetch is cancelled, and another one waits": lambda sites: Made(
        url=sites.page("/ok"), starts_in_s=WAITS_S, meanwhile=cancel_for_another
    ),
    "the fetch is cancelled, and no other one waits": lambda sites: Made(
        url=sites.page("/ok"), starts_in_s=WAITS_S, meanwhile=lambda fetch: cancel(fetch.pk)
    ),
    "the site closes the waiting connection": lambda sites: Made(
        url=sites.served(at.impatient(OK, closes_after_s=0.2)), starts_in_s=WAITS_S
    ),
    # Answers
    **{
        status: lambda sites, status=status: Made(url=sites.page(f"/status/{status}"))  # type: ignore[misc]
        for status in ("200", "204", "400", "401", "403", "404", "409", "410", "500", "503")
    },
    "304 to a request with validators": lambda sites: revalidated(
        sites.served(at.unless_changed(at.http(b"200 OK", b"page", b'ETag: "1"'), at.http(b"304 Not Modified")))
    ),
    "304 that was not asked for": lambda sites: Made(url=sites.page("/status/304")),
    "a redirect": lambda sites: redirected(sites, sites.page("/ok")),
    "a redirect with a Retry-After": lambda sites: answering(
        sites, at.http(b"302 Found", b"", b"Location: /elsewhere", b"Retry-After: 30")
    ),
    "a redirect, with `max_redirects` of 0": lambda sites: Made(
        url=redirected(sites, sites.page("/ok")).url, is_made_ready=lambda fetch: change(fetch, max_redirects=0)
    ),
    "206 that was not asked for": lambda sites: answering(sites, at.http(b"206 Partial Content", b"page")),
    "409 to a PATCH that was perhaps sent before": lambda sites: Made(
        url=sites.served(at.saying(at.http(b"409 Conflict"))),
        is_made_ready=lambda fetch: change(fetch, method="PATCH", started_at=Now()),
    ),
    "a redirect of a PUT to another origin": lambda sites: Made(
        url=sites.served(at.saying(at.http(b"307 Temporary Redirect", b"", b"Location: http://8.8.8.8/"))),
        is_made_ready=lambda fetch: change(fetch, method="PUT"),
    ),
    "a redirect that names no target": lambda sites: answering(sites, at.http(b"302 Found")),
    "the eleventh redirect": lambda sites: Made(
        url=sites.page("/loop/1"), is_made_ready=lambda fetch: change(fetch, redirects=10)
    ),
    "a redirect to where it was asked": lambda sites: answering(sites, at.http(b"302 Found", b"", b"Location: #top")),
    "a redirect back to where it began": lambda sites: redirected_back(sites, sites.page("/ok")),
    "a redirect to two places": lambda sites: answering(
        sites, at.http(b"302 Found", b"", b"Location: /a", b"Location: /b")
    ),
    "a redirect to what is not fetched": lambda sites: redirected(sites, "ftp://files.example/"),
    "a redirect to a forbidden address": lambda sites: redirected(sites, "http://10.0.0.3/"),
    "a redirect to a forbidden port": lambda sites: redirected(sites, f"http://{at.PUBLIC}:25/"),
    "429 with Retry-After": lambda sites: Made(url=sites.page("/busy/1/60000/429/30")),
    "429 without Retry-After": lambda sites: Made(url=sites.page("/status/429")),
    "403, 413 or 420 that says until when (Retry-After, or a used-up quota)": lambda sites: answering(
        sites, at.http(b"403 Forbidden", b"", b"Retry-After: 30")
    ),
    "502, 529 or 999 that says until when": lambda sites: answering(
        sites, at.http(b"529 Overloaded", b"", b"Retry-After: 30")
    ),
    "a status that the site's settings name (`--refusing`)": lambda sites: Made(
        url=sites.page("/status/404"), is_made_ready=lambda fetch: name_as_refusing(fetch, 404)
    ),
    "any answer that is no refusal, with a used-up quota": lambda sites: answering(
        sites, at.http(b"200 OK", b"page", b'RateLimit: "default";r=0;t=30')
    ),
    "the body is larger than `WEIR_FETCH_MAX_BODY`": lambda sites: Made(url=sites.page(f"/big/{2 * MAX_BODY}")),
    "the decompressed body is larger": lambda sites: Made(url=sites.page("/gzipbomb/1")),
    "the compressed body is broken": lambda sites: encoded(sites, b"gzip", b"this is no gzip"),
    "the compressed body ends too early": lambda sites: encoded(sites, b"gzip", gzip.compress(bytes(1_000))[:-9]),
    "the compressed body lacks its trailer, or has bytes behind it": lambda sites: encoded(
        sites, b"gzip", gzip.compress(bytes(1_000))[:-1]
    ),
    "the body's encoding is unknown": lambda sites: encoded(sites, b"utf-8", b"page"),
    "404, whose body is too large, cut off or broken": lambda sites: encoded(sites, b"gzip", b"no gzip", b"404 None"),
    "a redirect whose body is too large, cut off or broken": lambda sites: encoded(
        sites, b"gzip", b"no gzip", b"302 Found\r\nLocation: /next"
    ),
    "500, whose body is too large, cut off or broken": lambda sites: encoded(
        sites, b"gzip", b"no gzip", b"500 Trouble"
    ),
    # No whole answer
    "a new connection is closed without an answer": lambda sites: Made(url=sites.page("/close/")),
    "a kept connection is closed without an answer": lambda sites: kept(sites.served(at.closing_on_the_second(OK))),
    "the connection is reset": lambda sites: answering(sites, b"", then="reset"),
    "the connection is closed in the middle of the body": lambda sites: answering(sites, OK[:-2]),
    "no answer comes in time, others come": lambda sites: Made(url=sites.page("/slow/60000")),
    "the body does not end in time": lambda sites: answering(sites, OK[:-2], then="wait"),
    "the headers are larger than 256 KiB together": lambda sites: answering(sites, at.http(b"200 OK", b"", *LONG)),
    "an answer has more than 256 header lines": lambda sites: answering(
        sites, at.http(b"200 OK", b"", *[b"Set-Cookie: a=1"] * 257)
    ),
    "more than 20 interim answers (1xx) come": lambda sites: answering(sites, b"HTTP/1.1 103 Early Hints\r\n\r\n" * 21),
    "the chunks of a body are broken": lambda sites: answering(
        sites, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<html>"
    ),
    "the site speaks before a request can be sent": lambda sites: Made(
        url=sites.served(at.speak_at_once), starts_in_s=WAITS_S
    ),
    "the answer is not HTTP": lambda sites: answering(sites, b"220 mail.example ESMTP\r\n\r\n"),
    # robots.txt
    "robots.txt disallows it": lambda sites: behind_robots(
        sites.served(at.saying(at.http(b"200 OK", b"User-agent: *\nDisallow: /")))
    ),
    "a secret in its headers is not known to the fetcher": lambda sites: Made(
        url=sites.page("/ok"), is_made_ready=lambda fetch: change(fetch, request_headers={"X": "{secret:MISSING}"})
    ),
    "robots.txt is not known yet": lambda sites: Made(url=sites.page("/ok"), is_made_ready=obey_robots),
    "robots.txt answers 404": lambda sites: behind_robots(sites.page("/ok")),
    "our settings forbid to connect to its origin": lambda sites: behind_robots(sites.named(lambda: "10.0.0.4")),
    "robots.txt answers 500, three times": lambda sites: behind_robots(
        sites.served(at.saying(at.http(b"500 Internal Server Error")))
    ),
    "robots.txt does not answer in time, three times": lambda sites: behind_robots(
        sites.served(at.saying(b"", then="wait"))
    ),
    # Processes, messages and the database
    "PostgreSQL refuses the result": lambda sites: Made(url=sites.page(REFUSED)),
}


def https(url: str) -> str:
    return url.replace("http:", "https:")


def refusing(sites: SituationSites, code: int) -> Made:
    """Return the fetch of an address to which `connect` fails with this code."""
    return Made(url=sites.failing_to_connect(OSError(code, os.strerror(code))))


def name_as_refusing(fetch: Fetch, status: int) -> None:
    """Make this status a refusal at the fetch's site."""
    Site.objects.filter(pk=fetch.site_id or 0).update(refusing=[status, 429, 503])


def answering(sites: SituationSites, answer: bytes, then: str = "close") -> Made:
    """Return the fetch of a page that is answered by these bytes."""
    return Made(url=sites.served(at.saying(answer, then=then)))


def encoded(sites: SituationSites, encoding: bytes, body: bytes, status: bytes = b"200 OK") -> Made:
    """Return the fetch of a page in this encoding."""
    return answering(sites, at.http(status, body, b"Content-Encoding: " + encoding))


def redirected(sites: SituationSites, target: str) -> Made:
    """Return the fetch of a page that redirects to this target."""
    return Made(url=sites.page(f"/redirect/{quote(target, safe='')}"))


def redirected_back(sites: SituationSites, first: str) -> Made:
    """Return the fetch that began at this page, was redirected, and is redirected back to it."""
    page = f"/redirect/{quote(first, safe='')}"
    return Made(url=sites.page(page), is_made_ready=lambda fetch: change(fetch, url=first, redirects=1))


def again(url: str, times: int, path: str = "/first") -> dict[str, Any]:
    """Return a page, and this many others of its site that are fetched before."""
    return {"url": url, "before": [urljoin(url, path)] * times}


def kept(url: str) -> Made:
    """Return the fetch of a page at a site to which a connection is kept."""
    return Made(url=url, first=url)


def revalidated(url: str) -> Made:
    """Return the second fetch of a page, with the validators of the first one."""
    return Made(url=url, first=url, options={"revalidate": True})


def behind_robots(url: str) -> Made:
    """Return the fetch of a page whose robots.txt comes first; its last attempt, if one fails."""
    return Made(url=url, is_due_in_both=True, is_made_ready=ask_robots_once)


def site_of(fetch: Fetch) -> str:
    return Site.objects.values_list("name", flat=True).get(pk=fetch.site_id or 0)


def obey_robots(fetch: Fetch) -> None:
    """Obey the robots.txt from now on."""
    Site.objects.filter(pk=fetch.site_id or 0).update(obeys_robots=True)


def ask_robots_once(fetch: Fetch) -> None:
    """Queue the robots.txt of a fetch, with two attempts made, if that was not done before."""
    obey_robots(fetch)
    robots_files.ask({origin_of(fetch.url): fetch.site_id or 0})
    Fetch.objects.filter(is_robots=True, site=fetch.site_id).update(attempts=2)


def cancel_for_another(fetch: Fetch) -> None:
    """Cancel a fetch while another one waits for the site."""
    request_fetch(fetch.url)
    in_time(cancel(fetch.pk), "a fetch is cancelled half a second before its start")


def change(fetch: Fetch, **fields: object) -> None:
    Fetch.objects.filter(pk=fetch.pk).update(**fields)


# --- how they are run ---------------------------------------------------------------------------------------------


class Runs:
    """Runs of fetchers in this process, without workers and beat: dispatch is called, and its messages are run here."""

    def __init__(self, sites: SituationSites, patch: pytest.MonkeyPatch) -> None:
        self.sites = sites
        self._messages: list[list[int]] = []
        self._slots: dict[int, int | None] = {}  # by fetch: its last slot
        patch.setattr(app, "send_task", self._send_task)
        patch.setattr(dispatching, "REFILL", LOOKAHEAD_S)

    def _send_task(self, name: str, args: tuple[Any, ...] = (), **_options: Any) -> None:
        if name == LOST_CALL:
            raise OperationalError("the broker is away")
        if name == task_names.FETCH_BATCH:
            self._messages.append(*args)

    def dispatched(self) -> list[list[int]]:
        """Return the messages about all that is due now, with their slots."""
        self._messages.clear()
        dispatching.dispatch()
        self._slots |= dict(Fetch.objects.exclude(slot_id=None).values_list("pk", "slot_id"))
        return list(self._messages)

    def run(self, fetcher: Fetcher, messages: Iterable[list[int]], meanwhile: Callable[[], object] = list) -> None:
        """Let a fetcher run messages, each in a thread as a worker does, and return when it holds nothing any more."""
        threads = [threading.Thread(target=fetcher.run_batch, args=(message,)) for message in messages]
        for thread in threads:
            thread.start()
        meanwhile()
        for thread in threads:
            thread.join(ENDED_WITHIN_S)
            assert not thread.is_alive(), held()
        wait_for(lambda: not fetcher._held, "everything to be stored")

    def slot(self, fetch: Fetch) -> int:
        """Return the last slot that a fetch got."""
        return self._slots.get(fetch.pk) or 0

    def seen(self, fetch: Fetch, events: Iterable[str] = ()) -> Seen:
        """Return what has become of a fetch and its last slot."""
        fetch = Fetch.objects.select_related("site").get(pk=fetch.pk)
        slot = Slot.objects.filter(pk=self.slot(fetch)).first()
        # It was backed off if the back-off ends after its own recall; it may be over by now.
        rests = Site.objects.filter(pk=fetch.site_id or 0, backed_off_until__gt=F("recalled_at")).exists()
        return Seen(
            state=fetch.state,
            attempts=fetch.attempts,
            error=fetch.error,
            status_code=fetch.status_code,
            had_slot=slot is not None,
            slot_used=slot is not None and slot.finished_at is not None,
            slot_released=slot is not None and slot.released_at is not None,
            slot_passed_on=slot is not None and slot.passed_on_at is not None,
            site_rests=rests,
            url=fetch.hop_url or fetch.url,
            events=tuple(events),
        )


@contextmanager
def a_fetcher() -> Iterator[Fetcher]:
    """Run a fetcher."""
    fetcher = Fetcher()
    try:
        yield fetcher
    finally:
        fetcher.close(0.1)


def held() -> list[str]:
    return list(Fetch.objects.filter(state__in=[FetchState.RESERVED, FetchState.RUNNING]).values_list("url", flat=True))


def wait_for(condition: Callable[[], object], what: str) -> None:
    give_up_at = time.monotonic() + ENDED_WITHIN_S
    while not condition():
        assert time.monotonic() < give_up_at, f"Waited in vain for {what}: {held()}"
        time.sleep(0.01)


Alone = Callable[[Runs], dict[str, Seen]]
ALONE: dict[str, Alone] = {}


def makes(*situations: str) -> Callable[[Alone], Alone]:
    """Record which situations a function makes."""

    def note(function: Alone) -> Alone:
        ALONE.update(dict.fromkeys(situations, function))
        return function

    return note


@makes(*MADE)
def all_at_once(runs: Runs) -> dict[str, Seen]:
    """Fetch from all sites of MADE in one run, while others are healthy."""
    made = {what: make(runs.sites) for what, make in MADE.items()}
    with a_fetcher() as fetcher, capture_logs() as logs, unreadable_pages(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(reachability, "EVIDENCE_S", EVIDENCE_S)
        fetches = requested({what: each for what, each in made.items() if each.is_due_in_both})
        request_fetches(each.first for each in made.values() if each.first)
        for what, fetch in fetches.items():
            made[what].is_made_ready(fetch)
        Site.objects.update(grace=GRACE)
        runs.run(fetcher, runs.dispatched())
        healthy = request_fetches(runs.sites.named(path="/once") for _ in range(HEALTHY))
        fetches |= requested({what: each for what, each in made.items() if not each.is_due_in_both})
        make_ready(fetches, made)
        open_in_turn(healthy)
        messages = runs.dispatched()
        time.sleep(LATE_S)
        runs.run(fetcher, messages, lambda: do_meanwhile(fetches, made))
        events = [entry["event"] for entry in logs]
        return {what: runs.seen(fetch, events) for what, fetch in fetches.items()}


def requested(made: Mapping[str, Made]) -> dict[str, Fetch]:
    """Ask for fetches, each with the fetches that come before it."""
    request_fetches(url for each in made.values() for url in each.before)
    return {what: request_fetch(each.url, **each.options) for what, each in made.items()}


def make_ready(fetches: Mapping[str, Fetch], made: Mapping[str, Made]) -> None:
    """Make every site free, with the settings that its fetch asks for."""
    now = database_now()
    Site.objects.update(grace=GRACE, next_start=now)
    for what, fetch in fetches.items():
        each = made[what]
        Site.objects.filter(pk=fetch.site_id or 0).update(
            grace=each.grace,
            interval=timedelta(seconds=each.interval_s),
            next_start=now + timedelta(seconds=each.starts_in_s),
        )
        if not each.is_due_in_both:
            each.is_made_ready(fetch)


def open_in_turn(healthy: Iterable[Fetch]) -> None:
    """Let healthy sites be asked one after the other."""
    now = database_now()
    for place, fetch in enumerate(healthy):
        Site.objects.filter(pk=fetch.site_id or 0).update(next_start=now + timedelta(seconds=place * HEALTHY_EVERY_S))


def do_meanwhile(fetches: Mapping[str, Fetch], made: Mapping[str, Made]) -> None:
    """Once these fetches are claimed, do what is to happen while they wait."""
    wait = {what: fetch for what, fetch in fetches.items() if made[what].meanwhile is not nothing}
    keys = [fetch.pk for fetch in wait.values()]
    wait_for(lambda: Fetch.objects.filter(pk__in=keys, state=FetchState.RUNNING).count() == len(keys), "claims")
    for what, fetch in wait.items():
        made[what].meanwhile(fetch)


@contextmanager
def unreadable_pages() -> Iterator[None]:
    """Leave no memory for the answer of one page, and make PostgreSQL refuse the answer of another."""
    beginning, judge = Session._answer, outcomes.judge

    def out_of_memory(_data: memoryview) -> None:
        raise MemoryError

    async def answer(of: Session, attempt: Attempt, connection: HttpConnection, reader: AnswerReader) -> Event:
        if attempt.job.url.endswith(OUT_OF_MEMORY):
            reader.feed = out_of_memory  # type: ignore[assignment,method-assign]
        if attempt.job.url.endswith(UNREADABLE):
            asyncio.get_running_loop().call_later(IN_BODY_S, connection.fail, MemoryError())
        return await beginning(of, attempt, connection, reader)

    def judged(event: Event, **options: Any) -> FetchOutcome:
        outcome = judge(event, **options)
        return replace(outcome, status_code=10**6) if event.job.url.endswith(REFUSED) else outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_answer", answer)
        patch.setattr(writer, "judge", judged)
        yield


# --- alone --------------------------------------------------------------------------------------------------------

CUT_OFF: dict[str, Callable[[SituationSites], str]] = {
    "no name server answers for any site (EAI_AGAIN)": lambda sites: sites.named(at.failing(socket.EAI_AGAIN)),
    "no name server answers in time for any site": lambda sites: sites.named(at.slow(2 * DNS_TIMEOUT_S)),
    "no site answers attempts to connect": lambda sites: sites.silent(),
    "every host is unreachable (EHOSTUNREACH)": lambda sites: refusing(sites, errno.EHOSTUNREACH).url,
    "no site answers in time any more": lambda sites: sites.page("/slow/60000"),
}
OTHERS = 5  # sites that fail in the same way


@makes(*CUT_OFF)
def cut_off(runs: Runs) -> dict[str, Seen]:
    """Make all sites of a fetcher fail in one respect: a fetcher for each."""
    fetches = {what: request_fetches(url(runs.sites) for _ in range(1 + OTHERS)) for what, url in CUT_OFF.items()}
    Site.objects.update(grace=GRACE)
    slots = {slot for message in runs.dispatched() for slot in message}
    with ExitStack() as leaving, capture_logs() as logs:
        threads = []
        for alike in fetches.values():
            own = [runs.slot(fetch) for fetch in alike]
            assert slots.issuperset(own)
            fetcher = leaving.enter_context(a_fetcher())
            threads.append(threading.Thread(target=runs.run, args=(fetcher, [own])))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = [entry["event"] for entry in logs]
    return {what: runs.seen(alike[0], events) for what, alike in fetches.items()}


FOR_LONG = "no site is reached for an hour, for this fetch in this process"
NO_ROUTE = "this host has no default route (ENETUNREACH)"


@makes(FOR_LONG, NO_ROUTE)
def cut_off_for_long(runs: Runs) -> dict[str, Seen]:
    """End the hour immediately; and, in another fetcher, leave no route."""
    alike = request_fetches(runs.sites.named(at.failing(socket.EAI_AGAIN)) for _ in range(1 + OTHERS))
    unrouted = request_fetch(refusing(runs.sites, errno.ENETUNREACH).url)
    Site.objects.update(grace=GRACE)
    messages = runs.dispatched()
    own = runs.slot(unrouted)
    with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
        patch.setattr(session, "OUTAGE_S", -1.0)
        patch.setattr(runs.sites, "has_routes", False)
        with a_fetcher() as fetcher:
            runs.run(fetcher, [[slot for slot in message if slot != own] for message in messages])
        with a_fetcher() as fetcher:
            runs.run(fetcher, [[own]])
    events = [entry["event"] for entry in logs]
    return {FOR_LONG: runs.seen(alike[0], events), NO_ROUTE: runs.seen(unrouted, events)}


ONE_ADDRESS = "too many requests to the IP address wait for answers (`WEIR_FETCH_MAX_PER_ADDRESS`)"
KNOWN_SLOW = "the connection takes longer, though opened as early as the last one took"


@makes(ONE_ADDRESS, KNOWN_SLOW)
def without_room(runs: Runs) -> dict[str, Seen]:
    """Use an address that answers one request at a time, and a site that is slower than it was."""
    first, second = (request_fetch(url) for url in runs.sites.sharing("/slow/1000", "/ok"))
    slow = request_fetch(runs.sites.named(at.slow(SLOWER_S, runs.sites.address())))
    now = database_now()
    for fetch, starts_in_s in ((first, 0.0), (second, 0.6), (slow, AHEAD_S)):
        Site.objects.filter(pk=fetch.site_id or 0).update(next_start=now + timedelta(seconds=starts_in_s))
    Site.objects.filter(pk=first.site_id or 0).update(grace=GRACE)
    with override_settings(WEIR_FETCH_MAX_PER_ADDRESS=1), a_fetcher() as fetcher:
        fetcher._session._shared.openings.note(slow.site_id or 0, KNOWN_S / openings.SPARE)
        runs.run(fetcher, runs.dispatched())
    first.refresh_from_db()
    second.refresh_from_db()
    is_busy = first.started_at and (second.started_at or now) < first.started_at + timedelta(seconds=1)
    in_time(is_busy, "the second request, while the first one waits for its answer")
    return {ONE_ADDRESS: runs.seen(second), KNOWN_SLOW: runs.seen(slow)}


@makes("other look-ups have all threads of the resolver")
def without_threads(runs: Runs) -> dict[str, Seen]:
    """Let one look-up hang in a fetcher that makes one at a time."""
    told = threading.Event()

    def hang() -> str:
        told.wait(ENDED_WITHIN_S)
        raise OSError

    request_fetch(runs.sites.named(hang))
    fetch = request_fetch(runs.sites.named())
    Site.objects.update(grace=GRACE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup_shares, "MOST_LOOKUPS", 1)
        patch.setattr(reachability, "EVIDENCE_S", EVIDENCE_S)  # for the look-up that hangs
        with capture_logs() as logs, a_fetcher() as fetcher:
            runs.run(fetcher, runs.dispatched())
            told.set()
    events = [entry["event"] for entry in logs]
    return {"other look-ups have all threads of the resolver": runs.seen(fetch, events)}


@makes("the fetcher stops (SIGTERM)", "the fetcher stops (SIGTERM) before the answer")
def stopped(runs: Runs) -> dict[str, Seen]:
    """Stop a fetcher that waits for a slot, and for an answer."""
    waits, asks = request_fetches([runs.sites.page("/ok"), runs.sites.page("/slow/60001")])
    Site.objects.filter(pk=waits.site_id or 0).update(next_start=database_now() + timedelta(seconds=60))
    Site.objects.update(grace=GRACE)
    with a_fetcher() as fetcher:
        messages = runs.dispatched()

        def stop() -> None:
            wait_for(lambda: runs.sites.asked("/slow/60001"), "the request")
            fetcher.close(0.1)

        runs.run(fetcher, messages, stop)
    return {
        "the fetcher stops (SIGTERM)": runs.seen(waits),
        "the fetcher stops (SIGTERM) before the answer": runs.seen(asks),
    }


@makes("the message is lost", "the message comes twice", "the process `ticks` is down")
def messages_go_astray(runs: Runs) -> dict[str, Seen]:
    """Lose a message, deliver another one twice at the same time, and do not dispatch a third fetch."""
    lost = request_fetch(runs.sites.page("/ok"))
    runs.dispatched()
    twice = request_fetch(runs.sites.page("/twice"))
    Site.objects.update(grace=GRACE)
    with a_fetcher() as fetcher:
        runs.run(fetcher, runs.dispatched() * 2)
    assert runs.sites.asked("/twice") == 1
    let_leases_end()
    left = request_fetch(runs.sites.page("/ok"))
    seen = {
        "the message is lost": runs.seen(lost),
        "the message comes twice": runs.seen(twice),
        "the process `ticks` is down": runs.seen(left),
    }
    runs.dispatched()
    assert runs.slot(left), "the next tick reserves for it"
    return seen


@makes("PostgreSQL goes while the result is stored", "the broker is away when `on_done` is called")
def without_servers(runs: Runs) -> dict[str, Seen]:
    """Cut all connections of a fetcher to PostgreSQL while it reads an answer; the broker refuses a message later."""
    fetch = request_fetch(runs.sites.page("/slow/1000"))
    called = request_fetch(runs.sites.page("/ok"), on_done=LOST_CALL)
    Site.objects.update(grace=GRACE)
    with a_fetcher() as fetcher, capture_logs() as logs:

        def cut() -> None:
            wait_for(lambda: runs.sites.asked("/slow/1000"), "the request")
            wait_for(lambda: Fetch.objects.filter(pk=called.pk, state=FetchState.DONE).exists(), "the other result")
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

        runs.run(fetcher, runs.dispatched(), cut)
    broker_link.forget_outage()
    events = [entry["event"] for entry in logs]
    return {
        "PostgreSQL goes while the result is stored": runs.seen(fetch, events),
        "the broker is away when `on_done` is called": runs.seen(called, events),
    }


# A process that runs one message; a part of its fetcher fails when it is told so.
PROCESS = """
import json, threading, time
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
from django.conf import settings
from django.test import override_settings
override_settings(WEIR_FETCH_ALLOW_NETS=["127.1.0.0/16"]).enable()
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.processes import presence

def fail():
    raise MemoryError

presence.begin("fetcher", sys.argv[2])
fetcher = Fetcher()
while presence.current_id() is None:
    time.sleep(0.01)
threading.Thread(target=fetcher.run_batch, args=(json.loads(sys.argv[1]),)).start()
input()
fetcher._on_loop(fail)
"""
KILLED, FAILS = "the fetcher is killed", "a part of the fetcher fails"
DEATHS = (KILLED, FAILS, FROZEN)
MOMENTS = ("before the request is written", "before the answer is stored")


@makes(*(f"{death} {moment}" for death in DEATHS for moment in MOMENTS))
def dying(runs: Runs) -> dict[str, Seen]:
    """Kill a process with a fetcher, make a part of another one fail, and freeze a third.

    All wait for a slot, and for an answer.
    """
    fetches: dict[str, dict[str, Fetch]] = {}
    paths = dict(zip(DEATHS, ("/slow/60002", "/slow/60003", "/slow/60004"), strict=True))
    for death, path in paths.items():
        fetches[death] = {
            MOMENTS[0]: request_fetch(runs.sites.page("/ok")),
            MOMENTS[1]: request_fetch(runs.sites.page(path)),
        }
        for starts_in_s, fetch in zip((60, 0), fetches[death].values(), strict=True):
            next_start = database_now() + timedelta(seconds=starts_in_s)
            Site.objects.filter(pk=fetch.site_id or 0).update(next_start=next_start, grace=GRACE)
    runs.dispatched()
    processes = {death: start_process(death, map(runs.slot, fetches[death].values())) for death in DEATHS}
    try:
        wait_for(lambda: all(runs.sites.asked(path) for path in paths.values()), "the requests of all")
        processes[KILLED].kill()
        processes[FROZEN].send_signal(signal.SIGSTOP)
        processes[FAILS].communicate("\n", timeout=ENDED_WITHIN_S)
        statuses = [processes[death].wait(ENDED_WITHIN_S) for death in (KILLED, FAILS)]
        events = lose(FROZEN, map(runs.slot, fetches[FROZEN].values()))
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()
    assert statuses == [-signal.SIGKILL, EX_SOFTWARE]
    let_leases_end()
    return {
        f"{death} {moment}": runs.seen(fetch, events) for death in DEATHS for moment, fetch in fetches[death].items()
    }


def start_process(name: str, slots: Iterable[int]) -> Forked:
    """Start a process that runs the message of these slots."""
    words = ("-c", PREAMBLE + PROCESS, json.dumps(list(slots)), name)
    return Forked(*words, environment=environment_of_scripts(), of_weir=True)


def lose(name: str, slots: Iterable[int]) -> list[str]:
    """Stop a process' heartbeat for long, while another one beats, and end its runs; then let sweep look."""
    now = database_now()
    long_ago = now - timedelta(seconds=100)
    Process.objects.filter(name=name).update(turned_at=now - timedelta(seconds=SILENT_AFTER_S + 0.1))
    Process.objects.create(kind="ticks", name="ticks", host="here", pid=1, started_at=long_ago, steady_since=long_ago)
    Slot.objects.filter(pk__in=list(slots)).update(use_until=now)
    with capture_logs() as logs:
        assert sweep() == len(MOMENTS)
    return [entry["event"] for entry in logs]


def let_leases_end() -> None:
    """Let the time pass in which held fetches might still be stored, and let sweep look."""
    Fetch.objects.exclude(lease_until=None).update(lease_until=database_now() - timedelta(seconds=1))
    sweep()
