"""The answers of the fake sites: the first part of a path says how the site behaves; any other path is a page."""

import gzip
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from itertools import chain, repeat
from urllib.parse import unquote_to_bytes

PIECE = bytes(65_536)
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
HAVE_NO_BODY = {*range(100, 200), 204, 304}
STATUS = slice(len(b"HTTP/1.1 "), len(b"HTTP/1.1 200"))
NO_LENGTH = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer: head and body after `delay_s`, then the pieces of the stream, each after `pause_s`."""

    head: bytes
    body: bytes = b""
    stream: Iterable[bytes] = ()
    delay_s: float = 0.0
    pause_s: float = 0.0
    closes: bool = False

    @property
    def status(self) -> bytes:
        """The status as it is sent; empty if nothing is sent."""
        return self.head[STATUS]


def answer(status: int, body: bytes = b"", *headers: bytes) -> Answer:
    """Return an answer with a Content-Length, or without a body if its status allows none."""
    start = b"HTTP/1.1 %d %s" % (status, REASONS.get(status, b"Unknown"))
    if status in HAVE_NO_BODY:
        return Answer(head=b"\r\n".join((start, *headers, b"", b"")))
    length = b"Content-Length: %d" % len(body)
    return Answer(head=b"\r\n".join((start, *headers, length, b"", b"")), body=body)


class Answers:
    """How one site answers: depending on the path, and on its earlier requests."""

    def __init__(self, body_size: int) -> None:
        headers = (b"Content-Type: text/html", b'ETag: "w"', b"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT")
        self.page = answer(200, b"w" * body_size, *headers)
        self.last_page = replace(answer(200, self.page.body, *headers, b"Connection: close"), closes=True)
        self.times_asked: Counter[bytes] = Counter()
        self.busy_since: dict[bytes, float] = {}

    def to(self, method: bytes, path: bytes) -> Answer:
        """Return the answer to a request; that to HEAD has no body."""
        if method not in {b"GET", b"HEAD"}:
            return replace(answer(405 if method else 400), closes=True)
        name, _, rest = path[1:].partition(b"/")
        try:
            full = BEHAVIOURS[name](self, rest) if name in BEHAVIOURS else self.page
        except (ValueError, OverflowError) as error:
            full = answer(400, str(error).encode())
        return full if method == b"GET" else replace(full, body=b"", stream=())


def number(rest: bytes) -> int:
    """Return the number at the beginning of the rest of a path; ValueError if there is none."""
    return int(rest.partition(b"?")[0].partition(b"/")[0])


def flaky(site: Answers, rest: bytes) -> Answer:
    """Answer 500 to the first n requests of the same path at this site, then the page."""
    site.times_asked[rest] += 1
    return answer(500, b"not yet") if site.times_asked[rest] <= number(rest) else site.page


def busy(site: Answers, rest: bytes) -> Answer:
    """Answer the page; from the n-th request on, answer this status for this many ms: `n/ms/status/seconds/...`.

    Requests with the same four values are counted together. `seconds` is the Retry-After, or `-` for none.
    """
    first, ms, status, seconds = rest.split(b"/")[:4]
    key = b"/".join((first, ms, status, seconds))
    site.times_asked[key] += 1
    if site.times_asked[key] < int(first):
        return site.page
    since = site.busy_since.setdefault(key, time.monotonic())
    if time.monotonic() - since > int(ms) / 1_000:
        return site.page
    headers = () if seconds == b"-" else (b"Retry-After: " + seconds,)
    return answer(int(status), b"busy", *headers)


def closing(site: Answers, rest: bytes) -> Answer:
    """Close the connection without an answer for the first n requests of the same path at this site, then the page."""
    site.times_asked[rest] += 1
    return Answer(head=b"", closes=True) if site.times_asked[rest] <= number(rest) else site.page


def drip(site: Answers, _rest: bytes) -> Answer:
    """Answer the page, one byte a second."""
    return replace(site.page, body=b"", stream=repeat(b"w", len(site.page.body)), pause_s=1.0)


def big(_site: Answers, rest: bytes) -> Answer:
    """Answer as many bytes as the path says; they are generated while they are sent."""
    size = number(rest)
    pieces, last = divmod(size, len(PIECE))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    return Answer(head=head, stream=chain(repeat(PIECE, pieces), (PIECE[:last],)))


@cache
def gzipped_zeros(megabytes: int) -> bytes:
    """Return this many megabytes of zeros, gzipped to a thousandth: a member for each, made in a few milliseconds.

    While the sites' process computes, it reads nothing. If a client gives up its request meanwhile, the kernel's time
    of that request becomes the time when the connection ended: the request would look late, and the next one early.
    """
    return gzip.compress(bytes(1_000_000), mtime=0) * megabytes


def many_headers(_site: Answers, rest: bytes) -> Answer:
    """Answer as many headers as the path says, of 60,000 bytes each."""
    return answer(200, b"many headers", *(b"X-%d: " % n + b"a" * 60_000 for n in range(number(rest))))


BEHAVIOURS: dict[bytes, Callable[[Answers, bytes], Answer]] = {  # by a path's first part; any other gives the page
    b"once": lambda site, _: site.last_page,
    b"slow": lambda site, rest: replace(site.page, delay_s=number(rest) / 1_000),
    b"status": lambda _, rest: answer(number(rest), b"status"),
    b"flaky": flaky,
    b"busy": busy,
    b"redirect": lambda _, rest: answer(302, b"", b"Location: " + unquote_to_bytes(rest)),
    b"loop": lambda _, rest: answer(302, b"", b"Location: /loop/%d" % ((number(rest) + 1) % 100)),
    b"close": lambda *_: Answer(head=b"", closes=True),
    b"closing": closing,
    b"drip": drip,
    b"big": big,
    b"gzipbomb": lambda _, rest: answer(200, gzipped_zeros(number(rest)), b"Content-Encoding: gzip"),
    b"longheader": lambda _, rest: answer(200, b"long header", b"X-Long: " + b"a" * number(rest)),
    b"manyheaders": many_headers,
    b"badheader": lambda *_: answer(200, b"bad header", b"X-Bad: \xff\xfe"),
    b"nolength": lambda site, _: Answer(head=NO_LENGTH, body=site.page.body, closes=True),
    b"robots.txt": lambda *_: answer(404, b"not found"),
}
