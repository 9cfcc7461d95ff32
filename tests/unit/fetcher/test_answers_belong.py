"""Whatever sites write, and whenever: a body that is kept was sent after its own request, in whose slot that was."""

import asyncio
import os
import time
from contextlib import ExitStack
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, example, given
from hypothesis import settings as property_test
from hypothesis import strategies as st
from pytest_django import Settings

from tests.unit.fetcher.scripted_site import Script, ScriptedSite, Step
from weir.ratelimit import clock
from weir.ratelimit.pacing import Confirmation, Run
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.http import reachability
from weir.workers.fetches.fetcher.http.session import Session
from weir.workers.fetches.fetcher.in_flight import BatchInFlight, HeldJob
from weir.workers.fetches.fetcher.wire.connection import HttpConnection
from weir.workers.fetches.jobs import Answer, Event, Failure, Flaw, Job

INTERVAL_S = 0.012
JOBS = 6  # of each site
MOST_SPENT_S = 0.005  # of the processor, between the last look at a connection and the end of the write
AT_LENGTH = "WEIR_FAULTS" in os.environ
LOCAL = Allowed(networks=(ip_network("127.0.0.0/8"),))

STEPS = st.builds(
    Step,
    delay_s=st.sampled_from([0.0, 0.0, 0.004, 0.03]),
    framing=st.sampled_from(["length", "chunked", "end"]),
    interims=st.integers(0, 2),
    pieces=st.integers(1, 4),
    ending=st.sampled_from(["keep", "keep", "keep", "close", "reset", "cut"]),
    extras=st.lists(st.sampled_from([0.0, 0.001, 0.005, 0.01]), max_size=2).map(tuple),
)
SCRIPTS = st.builds(
    Script,
    greetings=st.lists(st.booleans(), min_size=1, max_size=3).map(lambda some: (*some, False)),
    steps=st.lists(STEPS, min_size=1, max_size=JOBS).map(tuple),
)


def jobs_at(site: ScriptedSite, site_id: int) -> list[Job]:
    """Return jobs in a run of the site that begins soon."""
    first = clock.now() + 0.01
    until = first + 2 * JOBS * INTERVAL_S
    run = Run(
        interval_s=INTERVAL_S,
        burst=1,
        start_until=until,
        use_until=until,
        confirmation=Confirmation(asked_at=first + 60),
    )
    return [
        Job(
            fetch_id=site_id * 100 + place,
            url=f"{site.origin}/{site_id}/{place}",
            redirects=0,
            attempts=0,
            max_attempts=1,
            site_id=site_id,
            site=str(site_id),
            slot_id=place,
            start_at=first + place * INTERVAL_S,
            run=run,
        )
        for place in range(JOBS)
    ]


async def events_of(sites: list[ScriptedSite]) -> list[Event]:
    """Let one session request the jobs of all sites; returns the events in which they end."""
    session = Session(LOCAL, lambda *_: None, lambda *_: None, lambda *_: None)
    try:
        jobs = [job for number, site in enumerate(sites) for job in jobs_at(site, number)]
        return await asyncio.gather(*(session.fetch(HeldJob(job=job, batch=BatchInFlight([job]))) for job in jobs))
    finally:
        session.close()


class Moments:
    """By the path of a request: when its connection was last read, and when the request had been written.

    The two are microseconds apart, unless the machine stands still between them. What comes then may be an answer; but
    no time is for what the fetcher itself does between the two. Examples have the same paths, one after the other:
    times of an earlier one are past, and excuse nothing.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._looked: dict[HttpConnection, tuple[str, float, float]] = {}
        self._of: dict[str, tuple[float, float]] = {}
        self.longest_spent_s = 0.0  # of the processor
        prepare, send = HttpConnection.prepare, HttpConnection.send

        def note_look(connection: HttpConnection, request: bytes) -> bytes:
            looked_at = (time.monotonic(), time.thread_time())
            prepared = prepare(connection, request)
            self._looked[connection] = (request.split(b" ")[1].decode(), *looked_at)
            return prepared

        def note_write(connection: HttpConnection, *arguments: Any) -> None:
            path, looked_at, spent_s = self._looked.pop(connection)
            send(connection, *arguments)
            self._of[path] = (looked_at, time.monotonic())
            self.longest_spent_s = max(self.longest_spent_s, time.thread_time() - spent_s)

        patch.setattr(HttpConnection, "prepare", note_look)
        patch.setattr(HttpConnection, "send", note_write)

    def has(self, path: str, sent: tuple[float, float]) -> bool:
        """Return whether what was sent between these times may have come in the moment of this request."""
        looked_at, written_at = self._of[path]
        return sent[0] <= written_at and looked_at <= sent[1]


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    return Moments(monkeypatch)


@pytest.fixture(autouse=True)
def quick(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_FETCH_TIMEOUT = 0.15
    monkeypatch.setattr(reachability, "EVIDENCE_S", 0.01)


# Each body is kept with the next URL where what comes on an idle connection is taken for an answer.
@example([Script(steps=(Step(extras=(0.005,)), *[Step()] * 5))])
@example([Script(greetings=(True, False))])
@example([Script(), Script()])
@given(st.lists(SCRIPTS, min_size=1, max_size=2))
@property_test(
    max_examples=1_000 if AT_LENGTH else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_an_answer_belongs_to_the_request_before_it(moments: Moments, scripts: list[Script]) -> None:
    """Each body that is kept was sent after its request had arrived, or in its moment; starts keep their distance."""
    with ExitStack() as running:
        sites = [ScriptedSite(script) for script in scripts]
        for site in sites:
            running.callback(site.close)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            events = runner.run(events_of(sites))
    starts: dict[int, list[float]] = {}
    for event in events:
        if isinstance(event, (Answer, Failure)) and event.lateness_ms is not None:
            assert event.lateness_ms >= 0
            starts.setdefault(event.job.site_id, []).append(event.job.start_at + event.lateness_ms / 1000)
        if isinstance(event, Answer) and event.flaw is Flaw.NONE:
            number = int(event.body.split()[0])
            site = sites[event.job.site_id]
            path = event.job.url.removeprefix(site.origin)
            assert path in site.after[number] or moments.has(path, site.sent[number]), (path, event.body)
    assert moments.longest_spent_s < MOST_SPENT_S
    if all(script == Script() for script in scripts):
        assert all(isinstance(event, Answer) for event in events), "sites that answer well are heard"
    for of_site in starts.values():
        assert all(later - earlier >= INTERVAL_S - 1e-9 for earlier, later in pairwise(sorted(of_site)))
