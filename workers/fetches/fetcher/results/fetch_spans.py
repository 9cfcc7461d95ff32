"""The span of each attempt at a fetch: from its slot to its end, with a link to the span that asked for the fetch."""

import time

from weir.ratelimit import clock
from weir.workers.fetches.jobs import Answer, Event, Failure, FetchOutcome
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.targets import parts_of
from weir.workers.tracing import correlation, spans


def record(event: Event, outcome: FetchOutcome) -> None:
    """Record an attempt, if spans are on. In the writer's thread: the loop computes nothing."""
    if not spans.is_on():
        return
    now, ago_s = time.time(), clock.now() - event.job.start_at
    began_at = now - max(0.0, ago_s)  # a fetch that is given back may have a slot in the future
    spans.record(
        "fetch",
        _attributes(event, outcome),
        began_at=began_at,
        ended_at=began_at + took_s if (took_s := _took_s(event)) is not None else now,
        link=event.job.traceparent,
        failed=outcome.state == FetchState.FAILED,
    )


def _took_s(event: Event) -> float | None:
    """Return the seconds from the slot to the end of the answer; None if no request was written."""
    if isinstance(event, (Answer, Failure)) and event.lateness_ms is not None and event.elapsed_ms is not None:
        return (event.lateness_ms + event.elapsed_ms) / 1000
    return None


def _attributes(event: Event, outcome: FetchOutcome) -> dict[str, str | int]:
    """Return the attributes that a collector of spans may have: no path, query or password."""
    url = parts_of(event.job.url)
    status = {} if outcome.status_code is None else {"http.response.status_code": outcome.status_code}
    name = {correlation.KEY: event.job.correlation_id} if event.job.correlation_id else {}
    return {
        "server.address": url.host,
        "url.scheme": url.scheme,
        "weir.path_length": len(url.path_and_query.partition("?")[0]),
        "weir.fetch": event.job.fetch_id,
        "weir.state": outcome.state.value,
        **status,
        **name,
    }
