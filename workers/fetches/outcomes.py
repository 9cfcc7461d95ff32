"""What becomes of a fetch after an attempt: pure decisions from what the fetcher saw to what is stored."""

import json
import zlib
from dataclasses import dataclass, replace
from urllib.parse import urljoin

from workers.fetches import robots
from workers.fetches.claim import Job
from workers.fetches.models import State
from workers.fetches.refusals import TOO_MANY_REQUESTS
from workers.fetches.targets import parse_target
from workers.retry import backoff_s

MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOT_MODIFIED = 304
CLIENT_ERRORS = range(400, 500)
SERVER_ERROR = 500
ACCEPT_ENCODING = "gzip, deflate"
GZIP_MAGIC = b"\x1f\x8b"
PIECE = 4_096
MOST_ENCODINGS = 2
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole answer came. The body is as it was on the wire."""

    job: Job
    status_code: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    lateness_ms: float
    elapsed_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """No whole answer came."""

    job: Job
    error: str
    permanent: bool = False
    lateness_ms: float | None = None  # None: the request was not written, its slot is unused
    elapsed_ms: float | None = None
    slot_used: bool = False  # the request was written, though its times are not known
    not_before_s: float = 0.0  # another attempt is of no use any sooner


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenBack:
    """There is no answer that counts: the run was over, the fetcher stops, or robots.txt is not known yet.

    No attempt is counted.
    """

    job: Job
    delay_s: float = 0.0
    reason: str = ""
    slot_used: bool = False  # a request was written in its slot all the same


@dataclass(frozen=True, kw_only=True, slots=True)
class Disallowed:
    """robots.txt disallows the request: it is never written, and that is no attempt."""

    job: Job
    error: str


Event = Answer | Trouble | GivenBack | Disallowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What is stored for one fetch; the fields are the columns of sql/store.sql."""

    fetch_id: int
    slot_id: int
    state: State
    attempted: bool = True
    slot_used: bool = True
    delay_s: float = 0.0
    error: str = ""
    status_code: int | None = None
    headers: str | None = None
    etag: str = ""
    last_modified: str = ""
    lateness_ms: float | None = None
    elapsed_ms: float | None = None
    hop_url: str | None = None
    hop_lane: str | None = None
    content: bytes | None = None
    unchanged_from: int | None = None
    is_lost: bool = False  # holds only as long as its lease has run out


class BodyRefused(ValueError):
    """The body cannot be stored; the message says why."""


def judge(event: Event, *, max_body: int, chance: float) -> Outcome:
    """Decide what becomes of a fetch. `chance` in [0, 1) is the jitter of a retry."""
    job = event.job
    outcome = Outcome(fetch_id=job.fetch_id, slot_id=job.slot_id, state=State.QUEUED)
    if isinstance(event, (GivenBack, Disallowed)):
        return _not_requested(replace(outcome, attempted=False), event)
    outcome = replace(outcome, lateness_ms=event.lateness_ms, elapsed_ms=event.elapsed_ms)
    if isinstance(event, Trouble):
        outcome = replace(outcome, slot_used=event.slot_used or event.lateness_ms is not None, error=event.error)
        return (
            replace(outcome, state=State.FAILED)
            if event.permanent
            else _again(outcome, job.attempts, job.max_attempts, chance, event.not_before_s)
        )
    outcome = replace(outcome, status_code=event.status_code, headers=_as_json(event.headers))
    if event.status_code == TOO_MANY_REQUESTS or event.status_code >= SERVER_ERROR:
        error = f"the site answered {event.status_code}"
        return _again(replace(outcome, error=error), job.attempts, job.max_attempts, chance)
    if event.status_code in REDIRECTS and (location := _location(event.headers)):
        return _redirected(outcome, job, location)
    if event.status_code == NOT_MODIFIED and job.validators:
        outcome = replace(outcome, unchanged_from=job.validators.fetch_id)
    try:
        content = _content(event, max_body)
    except BodyRefused as error:
        return replace(outcome, state=State.FAILED, error=str(error))
    return replace(
        outcome,
        state=State.DONE,
        etag=_header(event.headers, b"etag"),
        last_modified=_header(event.headers, b"last-modified"),
        content=content,
    )


def lost(*, fetch_id: int, slot_id: int, was_running: bool, attempts: int, max_attempts: int, chance: float) -> Outcome:
    """Decide what becomes of a fetch whose holder went silent. Only one that ran has used up an attempt."""
    outcome = Outcome(fetch_id=fetch_id, slot_id=slot_id, state=State.QUEUED, is_lost=True)
    if not was_running:
        return replace(outcome, attempted=False, slot_used=False)
    error = "its fetcher died, or could not store the result, before the lease ran out"
    return _again(replace(outcome, error=error), attempts, max_attempts, chance)


def _content(answer: Answer, max_body: int) -> bytes:
    encoding = _header(answer.headers, b"content-encoding")
    if not answer.job.is_robots:
        return decoded(answer.body, encoding, max_body)
    if answer.status_code in CLIENT_ERRORS:
        return b""  # whatever page says so: there is no robots.txt
    return decoded(answer.body, encoding, robots.MAX_BYTES, cut=True)


def decoded(body: bytes, encoding: str, max_body: int, *, cut: bool = False) -> bytes:
    """Return the body without its content encoding; raises BodyRefused where that fails or exceeds `max_body` bytes.

    With `cut` one that is longer, or was cut off behind `max_body` bytes, is no error: the first `max_body` + 1 are
    returned, so that it can be seen.
    """
    is_whole = not cut or len(body) <= max_body
    most = max_body + PIECE if cut else max_body  # a layer that is cut off must hold more than `max_body` in the next
    names = [part.strip().lower() for part in encoding.split(",") if part.strip()]
    if len(names) > MOST_ENCODINGS:
        raise BodyRefused(f"the body is encoded {len(names)} times over")
    for name in reversed(names):
        if name == "identity":
            continue
        if name not in _WINDOW_BITS:
            raise BodyRefused(f"the body's encoding {name!r} was not asked for")
        body = _inflated(body, _WINDOW_BITS[name], most, is_whole=is_whole)
    if len(body) > max_body and not cut:
        raise BodyRefused(f"the body is larger than {max_body} bytes (WEIR_FETCH_MAX_BODY)")
    return body[: max_body + 1]


def _inflated(body: bytes, window_bits: int, max_body: int, *, is_whole: bool) -> bytes:
    """Inflate at most one byte more than `max_body`; a gzip body may have several members."""
    parts: list[bytes] = []
    room, position, inflater = max_body + 1, 0, zlib.decompressobj(window_bits)
    try:
        while room > 0 and position < len(body):
            # In small pieces: what a member leaves over of its last one is copied.
            piece = body[position : position + PIECE]
            parts.append(inflater.decompress(piece, room))
            room -= len(parts[-1])
            position += len(piece) - len(inflater.unused_data) - len(inflater.unconsumed_tail)
            if inflater.eof:
                if not body.startswith(GZIP_MAGIC, position):  # the end, or padding behind it
                    break
                inflater = zlib.decompressobj(window_bits)
    except zlib.error as error:
        if window_bits == zlib.MAX_WBITS and not parts:  # many servers say deflate and leave zlib's header out
            return _inflated(body, -zlib.MAX_WBITS, max_body, is_whole=is_whole)
        raise BodyRefused(f"the compressed body is broken: {error}") from error
    if is_whole and body and room > 0 and not inflater.eof:
        raise BodyRefused("the compressed body ends too early")
    return b"".join(parts)


def _not_requested(outcome: Outcome, event: GivenBack | Disallowed) -> Outcome:
    if isinstance(event, Disallowed):
        return replace(outcome, slot_used=False, state=State.FAILED, error=event.error)
    return replace(outcome, slot_used=event.slot_used, delay_s=event.delay_s, error=event.reason)


def _again(outcome: Outcome, attempts: int, max_attempts: int, chance: float, not_before_s: float = 0.0) -> Outcome:
    if attempts + 1 < max_attempts:
        return replace(outcome, state=State.QUEUED, delay_s=not_before_s + backoff_s(attempts + 1, chance))
    return replace(outcome, state=State.FAILED, error=f"{outcome.error} (attempt {attempts + 1} of {max_attempts})")


def _redirected(outcome: Outcome, job: Job, location: str) -> Outcome:
    if job.redirects >= MAX_REDIRECTS:
        return replace(
            outcome, state=State.FAILED, error=f"more than {MAX_REDIRECTS} redirects, the last to {location}"
        )
    try:
        target = parse_target(urljoin(job.url, location))
    except ValueError as error:  # InvalidTarget, and what urljoin cannot split
        return replace(outcome, state=State.FAILED, error=f"redirected to {location!r}: {error}")
    return replace(outcome, attempted=False, hop_url=target.url, hop_lane=target.lane)


def _header(headers: tuple[tuple[bytes, bytes], ...], name: bytes) -> str:
    return next((_text(value) for key, value in headers if key.lower() == name), "")


def _location(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Return where the answer leads; browsers take bytes beyond ASCII there for UTF-8, and so do sites."""
    raw = _header(headers, b"location").encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _as_json(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    return json.dumps([[_text(name), _text(value)] for name, value in headers])


def _text(raw: bytes) -> str:
    """Decode a header as RFC 9110 has it: bytes beyond ASCII are opaque, and Latin-1 keeps every one of them."""
    return raw.decode("latin-1").replace("\0", "")
