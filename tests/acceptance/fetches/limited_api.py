"""An API with a quota of requests in each window of time, which each of its answers states.

It states it in one of three ways: as draft-ietf-httpapi-ratelimit-headers-10 describes, as its drafts before 08 did, or
as GitHub does. GitHub refuses with 403, and has a second limit that no answer states: whoever exceeds it is told by
Retry-After for how long to stay away (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from demo.fakes.site_log import Arrival
from tests.acceptance.fetches.recording import Request, reply, serving

QUOTA: Final = 5
WINDOW_S: Final = 2
AWAY_S: Final = 1


class Limits(NamedTuple):
    """How an API states its quota: the header lines for what is left, and for the time of the reset; how it refuses."""

    stated: Callable[[int, float], list[str]]
    refuses_with: int
    has_second_limit: bool = False


def _draft(left: int, reset_at: float) -> list[str]:
    until_s = math.ceil(reset_at - time.time())
    return [f'RateLimit-Policy: "default";q={QUOTA};w={WINDOW_S}', f'RateLimit: "default";r={left};t={until_s}']


def _older_draft(left: int, reset_at: float) -> list[str]:
    until_s = math.ceil(reset_at - time.time())
    return [f"RateLimit-Limit: {QUOTA}", f"RateLimit-Remaining: {left}", f"RateLimit-Reset: {until_s}"]


def _github(left: int, reset_at: float) -> list[str]:
    return [f"x-ratelimit-limit: {QUOTA}", f"x-ratelimit-remaining: {left}", f"x-ratelimit-reset: {reset_at:.0f}"]


DRAFT: Final = Limits(_draft, 429)
OLDER_DRAFT: Final = Limits(_older_draft, 429)
GITHUB: Final = Limits(_github, 403, has_second_limit=True)


class Served(NamedTuple):
    """One answer."""

    at: float  # time.time()
    path: str
    status: int
    left: int  # of the quota
    away_until: float  # 0.0: the second limit was not exceeded


@dataclass
class LimitedApi:
    """Lists of pages, each of which names the next one. A window begins with its first request."""

    limits: Limits
    pages: int  # of each list
    left: int = QUOTA
    reset_at: float = 0.0
    surprised: set[str] = field(default_factory=set)  # the lists in which the second limit was exceeded
    arrivals: list[Arrival] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    address: str = ""

    def answer(self, request: Request) -> bytes:
        """Answer with a page, unless a limit is exceeded."""
        with self.lock:
            now, path = time.time(), urlsplit(request.path).path
            if now >= self.reset_at:
                self.left, self.reset_at = QUOTA, float(math.ceil(now + WINDOW_S))
            page = int(parse_qs(urlsplit(request.path).query).get("page", ["0"])[0])
            if self.limits.has_second_limit and page == 1 and path not in self.surprised and self.left:
                self.surprised.add(path)
                return self._said(request, 403, {"message": "too fast"}, f"Retry-After: {AWAY_S}", away_s=AWAY_S)
            if not self.left:
                return self._said(request, self.limits.refuses_with, {"message": "too many"})
            self.left -= 1
            following = f"http://{self.address}{path}?page={page + 1}" if page + 1 < self.pages else None
            return self._said(request, 200, {"next": following})

    def _said(self, request: Request, status: int, said: object, *lines: str, away_s: float = 0.0) -> bytes:
        now = time.time()
        self.served.append(Served(now, request.path, status, self.left, now + away_s if away_s else 0.0))
        stated = self.limits.stated(self.left, self.reset_at)
        return reply(status, json.dumps(said), f"Date: {formatdate(now, usegmt=True)}", *stated, *lines)


@contextmanager
def running(address: str, limits: Limits, pages: int) -> Iterator[LimitedApi]:
    """Let the API answer at this address, on a port of its own."""
    api = LimitedApi(limits, pages)
    with serving(address, api.answer, api.arrivals) as api.address:
        yield api
