"""Texts of fetches, for people and for machines: a list, one fetch, and why it waits."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from django.utils.text import Truncator
from rich.text import Text

from weir.conf.texts.request_headers import written_headers
from weir.workers.cli import terminal
from weir.workers.fetches.management.forecast_text import FARTHEST_S, WHEN
from weir.workers.fetches.reports.fetch_list import ListedFetch
from weir.workers.fetches.reports.fetch_way import FetchOnItsWay, FetchWay, WayStep
from weir.workers.fetches.reports.why import FetchBlocker, Why

SHOWN = 200  # characters of a text in the table; --json has all of them
COLUMNS = ("id", "state", "status", "URL", "error")
PRECISE = "%Y-%m-%d %H:%M:%S.%f UTC"


def as_table(fetches: Iterable[ListedFetch]) -> str:
    """Return the fetches as a table."""
    table = terminal.table(*COLUMNS, numbers=("id", "status"))
    for column in table.columns:
        column.no_wrap = column.header not in {"URL", "error"}
    for fetch in fetches:
        texts = (Text(terminal.printable(Truncator(text).chars(SHOWN))) for text in (fetch.url, fetch.error))
        table.add_row(str(fetch.id), fetch.state, str(fetch.status_code or ""), *texts)
    return terminal.rendered(table)


def as_data(fetch: ListedFetch) -> dict[str, object]:
    """Return a fetch of the list for machines, also as the columns of the export."""
    return {
        "id": fetch.id,
        "state": fetch.state,
        "status": fetch.status_code,
        "url": fetch.url,
        "error": fetch.error,
        "incomplete": fetch.incomplete,
        "site": fetch.site or None,
        "share": fetch.share or None,
        "reference": fetch.reference or None,
        "attempts": fetch.attempts,
        "max_attempts": fetch.max_attempts,
        "queued_at": fetch.created_at.isoformat(),
        "started_at": fetch.started_at and fetch.started_at.isoformat(),
        "finished_at": fetch.finished_at and fetch.finished_at.isoformat(),
    }


def own_request(*, is_robots: bool, token_client: str) -> str:
    """Return what Weir itself asks for by a fetch; "" if a user asked for it."""
    if is_robots:
        return "a robots.txt that Weir itself asks for"
    return f"an access token of {token_client}, for which Weir itself asks" if token_client else ""


def details(way: FetchWay) -> dict[str, object]:
    """Return everything that is stored about one fetch, except its body, for machines."""
    fetch = way.fetch
    times = {
        "queued_at": fetch.created_at,
        "due_at": fetch.due_at,
        "slot_at": fetch.slot_at,
        "started_at": fetch.started_at,
        "finished_at": fetch.finished_at,
    }
    return {
        "id": fetch.id,
        "state": fetch.state,
        "status": fetch.status_code,
        "url": fetch.url,
        "error": fetch.error,
        "target": fetch.hop_url or None,
        "method": fetch.method,
        "request_body_bytes": fetch.request_body_bytes,
        "idempotency_key": fetch.idempotency_key and str(fetch.idempotency_key),
        "redirects": fetch.redirects,
        "redirect_chain": fetch.redirect_chain or [],
        "max_redirects": fetch.max_redirects,
        "site": fetch.site or None,
        "is_robots": fetch.is_robots,
        "token_client": fetch.token_client or None,
        "endpoint_id": fetch.endpoint_id,
        "priority": fetch.priority,
        "share": fetch.share or None,
        "reference": fetch.reference or None,
        "attempts": fetch.attempts,
        "max_attempts": fetch.max_attempts,
        **{name: moment and moment.isoformat() for name, moment in times.items()},
        "lateness_ms": fetch.lateness_ms,
        "elapsed_ms": fetch.elapsed_ms,
        "request_headers": fetch.request_headers,
        "headers": fetch.headers,
        "body_bytes": fetch.body_bytes,
        "body_is_deleted": fetch.body_is_deleted,
        "unchanged_from": fetch.unchanged_from,
        "incomplete": fetch.incomplete or None,
        "on_done": fetch.on_done or None,
        "batch": fetch.batch or None,
        "correlation_id": fetch.correlation_id or None,
        "way": [
            {"what": step.kind, "at": step.at and step.at.isoformat(), "text": step.text, "expected": step.is_expected}
            for step in way.steps
        ],
    }


def as_text(way: FetchWay) -> str:
    """Return the fields of `details` that are not empty, for a screen."""
    of = details(way)
    lines = {name: terminal.printable(value) for name, value in _fields(way, of) if value}
    headers = (f"  | {terminal.printable(header)}" for header in _headers(of["headers"]))
    return "\n".join([f"fetch {of['id']}", *terminal.fields(lines), *headers])


def _fields(way: FetchWay, of: dict[str, object]) -> Iterator[tuple[str, str]]:
    fetch = way.fetch
    yield "state", str(of["state"])
    yield "URL", str(of["url"])
    yield "target", f"{of['target']}" if of["target"] not in {None, of["url"]} else ""
    yield "method", fetch.method if fetch.method != "GET" else ""
    yield "request body", f"{fetch.request_body_bytes:,} bytes" if fetch.request_body_bytes else ""
    yield "idempotency key", str(of["idempotency_key"] or "")
    chain = ", ".join(f"{status} to {url}" for status, url in fetch.redirect_chain or ())
    yield "redirects", chain or str(fetch.redirects or "")
    yield "what", own_request(is_robots=fetch.is_robots, token_client=fetch.token_client)
    yield "webhook to", f"endpoint {fetch.endpoint_id}" if fetch.endpoint_id else ""
    yield "site", str(of["site"] or "")
    yield "batch", fetch.batch
    yield "priority", str(of["priority"])
    yield "share", fetch.share
    yield "reference", fetch.reference
    yield "request headers", "; ".join(written_headers(fetch.request_headers or {}))
    yield "attempts", f"{of['attempts']} of {of['max_attempts']}"
    for step in way.steps:
        yield step.kind, _step(step)
    yield "took", f"{of['elapsed_ms']:.1f} ms" if of["elapsed_ms"] is not None else ""
    yield "status", str(of["status"] or "")
    yield "error", str(of["error"])
    yield "body", _body(fetch)
    yield "incomplete", str(of["incomplete"] or "")
    yield "unchanged from", f"fetch {of['unchanged_from']}, which has the body" if of["unchanged_from"] else ""
    yield "correlation id", str(of["correlation_id"] or "")


def _body(fetch: FetchOnItsWay) -> str:
    if fetch.body_is_deleted:
        return "deleted before the fetch (WEIR_FETCH_BODY_RETENTION)"
    if fetch.body_bytes is None:
        return ""
    where = f" in the storage {fetch.body_storage}" if fetch.body_storage else ""
    return f"{fetch.body_bytes:,} bytes{where}: --body writes them"


def _headers(stored: object) -> Iterator[str]:
    """Yield a line for each header; an entry that is not a pair of a name and a value is shown as JSON."""
    for header in stored if isinstance(stored, list) else [stored] * bool(stored):
        match header:
            case [name, value]:
                yield f"{name}: {value}"
            case _:
                yield json.dumps(header)


def _step(step: WayStep) -> str:
    when = f"{step.at.astimezone(UTC):{PRECISE}}" if step.at else ""
    said = ", ".join(filter(None, ("expected" if step.at and step.is_expected else "", step.text)))
    return f"{when} ({said})" if when and said else when or said


def why_text(found: Why) -> str:
    """Return what is in the fetch's way, a line for each blocker, the headline first."""
    return "\n".join(
        [f"fetch {found.fetch} ({found.state})", *(_line(blocker, found.now) for blocker in found.blockers)]
    )


def _line(blocker: FetchBlocker, now: datetime) -> str:
    until, remedy = "", f" -> {terminal.printable(blocker.remedy)}" if blocker.remedy else ""
    if blocker.until is not None and (blocker.until - now).total_seconds() < FARTHEST_S:
        left_s = max(0.0, (blocker.until - now).total_seconds())
        until = f" Until {blocker.until.astimezone(UTC):{WHEN}}, in {terminal.span(left_s)}."
    return f"  {blocker.kind}: {terminal.printable(blocker.text)}{until}{remedy}"


def why_data(found: Why) -> dict[str, object]:
    """Return what is in the fetch's way, for machines."""
    return {
        "id": found.fetch,
        "state": found.state,
        "now": found.now.isoformat(),
        "blockers": [
            {
                "kind": blocker.kind,
                "text": blocker.text,
                "until": blocker.until and blocker.until.isoformat(),
                "remedy": blocker.remedy or None,
            }
            for blocker in found.blockers
        ],
    }
