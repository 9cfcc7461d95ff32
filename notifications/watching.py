"""What Redis knows of PostgreSQL's part of unread numbers, so that one call can find that a number has not changed.

A number is the sum of the stored number in PostgreSQL and the later deltas in Redis. A flush moves deltas from Redis to
PostgreSQL, which changes no number. Other changes of PostgreSQL's part are rare: repairs, doubts, read marks, another
Redis. Each flush tells Redis the current state of these; code that changes the state also tells Redis immediately.
Redis gives the state a version, which polls compare. If no flush has told Redis for ten seconds, a poll asks
PostgreSQL.

A *marker* names a run of the server. The text of the loaded script `poll` contains the marker, and scripts neither
survive a restart nor are sent to replicas (by Valkey, and by Redis from 7.0 on). So if the script is missing, Redis may
have come back older.
"""

import os
from functools import lru_cache
from hashlib import sha1
from typing import Final, NamedTuple

import redis

from weir.postgres.statements import Statement
from weir.redis_link import calls, outages
from weir.redis_link.calls import RedisLink, Script
from weir.redis_link.keys import keys

WATCHED_STATE: Statement[str | None] = Statement("watched_state", returns=str, commits=False, prepare=True)
BUMP = Script("bump")
POLL = Script("poll")
WATCH = Script("watch")

MOST: Final = 1_000  # users with a doubt, and users with a read mark, that a flush looks at
PASTS: Final = 8  # epochs that are kept after PostgreSQL has their deltas; not so many are flushed between two polls


class Watched(NamedTuple):
    """The marker of the server's run, and the version of PostgreSQL's part, which changes with this part."""

    marker: str
    version: str


class Polled(NamedTuple):
    """The answer to a poll: see lua/poll.lua."""

    version: str
    incarnation: str
    epoch: int
    delta: float
    since: float


def past(epoch: int) -> str:
    """Return the key under which an epoch is kept after PostgreSQL has its deltas."""
    return _pasts()[epoch % PASTS]


def _pasts() -> list[str]:
    return [f"{keys().past}:{place}" for place in range(PASTS)]


def forget_pasts() -> None:
    """Delete all epochs that are kept for polls, and so the deltas of all users. Polls then ask PostgreSQL instead."""
    names = _pasts()
    calls.ask(lambda link: link.call("UNLINK", *names))


def tell() -> None:
    """Tell Redis the state of PostgreSQL's part. Raises `counters.RedisUnreachable`, and database errors."""
    found = WATCHED_STATE(most=MOST)
    _note(found[0] if found else None)


def changed() -> None:
    """Tell Redis immediately that PostgreSQL's part has changed. If the call fails, the next flush tells Redis."""
    try:
        calls.run(BUMP, [keys().watch], [_random()])
    except calls.RedisUnreachable as error:
        outages.warn("unread_change_not_told", error)


def _note(state: str | None) -> None:
    """Record the state of PostgreSQL's part in Redis, for ten seconds; None: Redis alone may answer no poll."""
    key = keys().watch
    if state is None:
        calls.ask(lambda link: link.call("DEL", key))
    else:
        calls.ask(lambda link: _note_state(link, key, state))


def _note_state(link: RedisLink, key: str, state: str) -> None:
    kept = link.run(WATCH, [key], [state, _random(), ""])
    if kept and link.call("SCRIPT", "EXISTS", _poll(kept)[0])[0]:
        return
    marker = _random()  # always a new one, because an old marker names a run that is over
    if link.run(WATCH, [key], [state, _random(), marker]):  # a full server gets no script, which would stay loaded
        link.call("SCRIPT", "LOAD", _poll(marker)[1])


def watched() -> Watched | None:
    """Return the marker and version to remember with a number that is read after this call.

    Returns None if no flush has told Redis lately.
    """
    key = keys().watch
    marker, _, rest = str(calls.ask(lambda link: link.call("GET", key)) or "").partition(" ")
    return Watched(marker, rest.partition(" ")[0]) if rest else None


def poll(marker: str, user: str, epoch: int) -> Polled | None:
    """Ask, in one call, for the sum of the user's deltas since this epoch was open; None if Redis does not know it."""
    ours = keys()
    of_script = [ours.epoch, ours.sealed, ours.incarnation, ours.watch, ours.open, ours.deltas, *_pasts()]

    def question(link: RedisLink) -> list[str] | None:
        try:
            told: list[str] | None = link.call("EVALSHA", _poll(marker)[0], len(of_script), *of_script, user, epoch)
        except redis.exceptions.NoScriptError:
            return None
        return told

    if not (told := calls.ask(question)):
        return None
    version, incarnation, opened, delta, since = told
    return Polled(version, incarnation, int(opened), float(delta), float(since))


@lru_cache(maxsize=64)
def _poll(marker: str) -> tuple[str, str]:
    text = f"{POLL.text}-- {marker}\n"
    return sha1(text.encode(), usedforsecurity=False).hexdigest(), text


def _random() -> str:
    return os.urandom(8).hex()
