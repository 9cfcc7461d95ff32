"""What Redis knows of PostgreSQL's part of unread numbers, so that one call can tell that a number has not changed.

A number is what PostgreSQL stores and what Redis holds after it. A flush moves deltas from one to the other, which
changes no number. Other changes of PostgreSQL's part are rare: repairs, doubts, read marks, another Redis. Each flush
tells Redis their current state; code that changes them tells Redis immediately, too. Redis gives that state a version,
which polls compare. If no flush has told Redis for ten seconds, a poll asks PostgreSQL.

A *marker* names a run of the server: the script `poll` is loaded with it, and scripts neither survive a restart nor are
sent to replicas (by Valkey, and Redis from 7.0 on). So if there is no such script, Redis may have come back older.
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
PASTS: Final = 8  # epochs that are kept after PostgreSQL has them: more are not flushed between two polls


class Watched(NamedTuple):
    """The marker of the server's run, and a version that each change of PostgreSQL's part replaces."""

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
    """Return the key under which an epoch is kept after PostgreSQL has it."""
    return _pasts()[epoch % PASTS]


def _pasts() -> list[str]:
    return [f"{keys().past}:{place}" for place in range(PASTS)]


def forget_pasts() -> None:
    """Delete all epochs that are kept for polls, with the deltas of all users: polls ask PostgreSQL instead."""
    names = _pasts()
    calls.ask(lambda link: link.call("UNLINK", *names))


def tell() -> None:
    """Tell Redis what PostgreSQL alone decides. Raises `counters.RedisUnreachable`, and database errors."""
    found = WATCHED_STATE(most=MOST)
    _note(found[0] if found else None)


def changed() -> None:
    """Tell Redis immediately that PostgreSQL's part has changed; if the call fails, the next flush tells it."""
    try:
        calls.run(BUMP, [keys().watch], [_random()])
    except calls.RedisUnreachable as error:
        outages.warn("unread_change_not_told", error)


def _note(state: str | None) -> None:
    """Note what PostgreSQL alone decides, for ten seconds; None: no poll may be answered from it."""
    key = keys().watch
    if state is None:
        calls.ask(lambda link: link.call("DEL", key))
    else:
        calls.ask(lambda link: _note_state(link, key, state))


def _note_state(link: RedisLink, key: str, state: str) -> None:
    kept = link.run(WATCH, [key], [state, _random(), ""])
    if kept and link.call("SCRIPT", "EXISTS", _poll(kept)[0])[0]:
        return
    marker = _random()  # never an old one: the run that it named is over
    if link.run(WATCH, [key], [state, _random(), marker]):  # loaded scripts stay: a full server gets none in vain
        link.call("SCRIPT", "LOAD", _poll(marker)[1])


def watched() -> Watched | None:
    """Return what to remember with a number that is read from now on; None if no flush has told Redis lately."""
    key = keys().watch
    marker, _, rest = str(calls.ask(lambda link: link.call("GET", key)) or "").partition(" ")
    return Watched(marker, rest.partition(" ")[0]) if rest else None


def poll(marker: str, user: str, epoch: int) -> Polled | None:
    """Ask, in one call, for the sum of the user's deltas since this epoch was open; None if that cannot be told."""
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
