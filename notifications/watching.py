"""What Redis knows of PostgreSQL's part of unread numbers, so that one call tells that a number has not changed.

A number is what PostgreSQL stores and what Redis holds after it. A flush moves deltas from one to the other, which
changes no number. What else changes PostgreSQL's part is rare: repairs, doubts, read marks, another Redis. Each flush
tells Redis what these are now; who changes them says so at once, too. Redis gives that a version, which polls compare.
Where no flush has told it for ten seconds, a poll asks PostgreSQL.

A *marker* names a run of the server: the script `poll` is loaded with it, and scripts are not kept over a start, nor
sent to replicas (by Valkey, and Redis from 7.0 on). So where no such script is, Redis may have come back older.
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

MOST: Final = 1_000  # users with a doubt, and with a read mark, who are looked at each time
PASTS: Final = 8  # epochs that are kept when PostgreSQL has them: more are not flushed between two polls


class Watched(NamedTuple):
    """The marker of the server's run, and a version that is another one after each change of PostgreSQL's part."""

    marker: str
    version: str


class Polled(NamedTuple):
    """What a poll is told: see lua/poll.lua."""

    version: str
    incarnation: str
    epoch: int
    delta: float
    since: float


def past(epoch: int) -> str:
    """Return the key under which an epoch is kept that PostgreSQL has."""
    return _pasts()[epoch % PASTS]


def _pasts() -> list[str]:
    return [f"{keys().past}:{place}" for place in range(PASTS)]


def forget_pasts() -> None:
    """Keep no epoch that PostgreSQL has, of whichever users: polls ask PostgreSQL instead."""
    names = _pasts()
    calls.ask(lambda link: link.call("UNLINK", *names))


def tell() -> None:
    """Tell Redis what PostgreSQL alone decides. Raises `counters.RedisUnreachable`, and database errors."""
    found = WATCHED_STATE(most=MOST)
    _note(found[0] if found else None)


def changed() -> None:
    """Say at once that PostgreSQL's part has changed; where Redis does not hear it, the next flush says so."""
    try:
        calls.run(BUMP, [keys().watch], [_random()])
    except calls.RedisUnreachable as error:
        outages.warn("unread_change_not_told", error)


def _note(state: str | None) -> None:
    """Note what PostgreSQL alone decides, for ten seconds; None: nothing that a poll may be answered by."""
    key = keys().watch
    if state is None:
        calls.ask(lambda link: link.call("DEL", key))
    else:
        calls.ask(lambda link: _note_state(link, key, state))


def _note_state(link: RedisLink, key: str, state: str) -> None:
    kept = link.run(WATCH, [key], [state, _random(), ""])
    if kept and link.call("SCRIPT", "EXISTS", _poll(kept)[0])[0]:
        return
    marker = _random()  # never an old one: what it stood for is over
    if link.run(WATCH, [key], [state, _random(), marker]):  # scripts stay: a full server gets none for nothing
        link.call("SCRIPT", "LOAD", _poll(marker)[1])


def watched() -> Watched | None:
    """Return what a number that is read from now on may be remembered with; None where nobody watches PostgreSQL."""
    key = keys().watch
    marker, _, rest = str(calls.ask(lambda link: link.call("GET", key)) or "").partition(" ")
    return Watched(marker, rest.partition(" ")[0]) if rest else None


def poll(marker: str, user: str, epoch: int) -> Polled | None:
    """Ask by one call what the user's deltas came to since this epoch was open; None where that cannot be told."""
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
