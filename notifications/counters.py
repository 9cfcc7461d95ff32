"""The deltas of unread numbers, in Redis: the only code that talks to it; one command or script (`lua/`) a call.

A delta is added to the open *epoch*. A flusher seals this epoch, which opens the next; brings its deltas to PostgreSQL;
and drops it. At most one epoch is sealed at a time. Redis runs commands and scripts one after the other, so each delta
is in exactly one epoch, and `peek` sees all live epochs as they were at one moment. The open epoch's deltas have a key
of their own, which sealing renames: adding needs to know no epoch, and is as cheap as Redis makes it.

Redis may lose all this at any time. Its *incarnation* is a random name that is lost with it, so another incarnation
shows that deltas are lost.

All functions raise Unreachable where Redis refuses, or does not answer in time; in the second case it may have done
what it was asked. No call is repeated, because one that was done would be done twice.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple
from uuid import uuid4

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.retry import Retry

EPOCH, SEALED, INCARNATION = "{unread}:epoch", "{unread}:sealed", "{unread}:incarnation"
OPEN = "{unread}:open"  # the open epoch's deltas: a sorted set: member = user, score = delta
DELTAS = "{unread}:deltas:"  # and the epoch: those of a sealed one
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 0.5, 1.0  # web code waits for them
LEFT_ALONE_S = 1.0  # after an error this process does not ask Redis again for so long
AT_ONCE = 5_000  # users in one script: less than Lua's stack holds, and Redis serves other clients in between


class Unreachable(Exception):
    """Redis did not answer, or refused."""


class Sealed(NamedTuple):
    """The sealed epoch; `fresh` if this call sealed it, and it was not sealed before."""

    epoch: int
    fresh: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Peek:
    """The live deltas of some users at one moment, by epoch. `incarnation` is empty where Redis has no epoch."""

    incarnation: str = ""
    deltas: Mapping[int, Mapping[int, int]]

    def of(self, user_id: int) -> dict[int, int]:
        """Return the user's deltas by epoch."""
        return {epoch: of_users[user_id] for epoch, of_users in self.deltas.items() if user_id in of_users}

    def after(self, epoch: int, user_id: int) -> int:
        """Return the user's deltas of all epochs after this one."""
        return sum(of_users.get(user_id, 0) for live, of_users in self.deltas.items() if live > epoch)


def add(deltas: Mapping[int, int]) -> None:
    """Add to the unread numbers of at most 5,000 users, by one call to Redis.

    A Redis that lost its memory takes them, too: they belong to the epoch that is opened there next.
    """
    if len(deltas) == 1:  # the most frequent call by web code; a script would take half as long again
        ((user_id, delta),) = deltas.items()
        with _Redis() as client:
            client.zincrby(OPEN, delta, user_id)
        return
    _run_script("add", [OPEN], [number for delta in deltas.items() for number in delta])


def open_epoch(floor: int, *, replacing: str = "") -> str:
    """Make sure that an epoch above `floor`, the highest that was flushed, is open; return Redis' incarnation.

    The incarnation is new where there was none, where Redis came back older than it was, and where it was `replacing`.
    """
    return str(_run_script("open", [EPOCH, OPEN, SEALED, INCARNATION], [floor, uuid4().hex, replacing]))


def seal() -> Sealed | None:
    """Seal the open epoch, unless one is sealed already; return the sealed one, or None where there are no deltas."""
    answer = _run_script("seal", [EPOCH, OPEN, SEALED], [])
    return answer and Sealed(int(answer[0]), bool(answer[1]))


def read(epoch: int) -> dict[int, int]:
    """Return the deltas of a sealed epoch, by user, without those that came to 0."""
    deltas: dict[int, int] = {}
    for start in count(0, AT_ONCE):
        page = _run_script("read", [DELTAS + str(epoch)], [start, start + AT_ONCE - 1])
        if not page:
            break
        numbers = map(int, page)
        deltas.update((user_id, delta) for user_id, delta in zip(numbers, numbers, strict=True) if delta)
    return deltas


def users() -> set[int]:
    """Return all users who have live deltas."""
    with _Redis() as client:
        live: Any = client.zrange(OPEN, 0, -1)  # first: users whose epoch is sealed meanwhile have been seen then
        sealed: Any = client.get(SEALED)
        live += client.zrange(DELTAS + sealed, 0, -1) if sealed else []
    return {int(user_id) for user_id in live}


def drop(epoch: int) -> None:
    """Remove a sealed epoch that PostgreSQL has; does nothing where it was dropped before."""
    _run_script("drop", [SEALED], [epoch])


def peek(user_ids: Collection[int]) -> Peek:
    """Return the live deltas of these users, at most 5,000, by one call to Redis."""
    answer = _run_script("peek", [EPOCH, SEALED, INCARNATION, OPEN], user_ids)
    if answer is None:
        return Peek(deltas={})
    incarnation, *live = answer
    return Peek(
        incarnation=incarnation,
        deltas={
            int(epoch): {
                user_id: int(float(delta)) for user_id, delta in zip(user_ids, deltas, strict=True) if delta is not None
            }
            for epoch, deltas in live
        },
    )


def first_epoch(incarnation: str) -> int:
    """Return the first epoch of this incarnation; earlier epochs are of a Redis that has lost its memory since."""
    return int(incarnation.partition("-")[0])


def server_run() -> str:
    """Return the server's run_id, another one after each start: Redis may have come back older than it was then."""
    with _Redis() as client:
        return str(client.info("server").get("run_id", ""))


def _run_script(name: str, keys: list[str], arguments: Collection[int | str]) -> Any:  # noqa: ANN401  what it returns
    with _Redis() as client:
        return _script(name)(keys, arguments, client)


@dataclass(kw_only=True, slots=True)
class _Outage:
    """The last time that this process did not reach Redis."""

    over_at: float = 0.0  # of time.monotonic()
    reason: str = ""


_outage = _Outage()


class _Redis:
    """The client, for a call or a few. A generator in its place would take a twentieth of the time that `add` takes."""

    def __enter__(self) -> redis.Redis:
        if time.monotonic() < _outage.over_at:  # no caller waits for one time-out after the other
            raise Unreachable(_outage.reason)
        return _client()

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if isinstance(error, redis.RedisError):
            _outage.over_at, _outage.reason = time.monotonic() + LEFT_ALONE_S, str(error)
            raise Unreachable(str(error)) from error


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=ANSWER_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


@cache
def _script(name: str) -> Script:
    return _client().register_script(files("notifications").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8"))
