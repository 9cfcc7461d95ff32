"""What Redis knows of PostgreSQL's part of unread numbers, so that one call tells that a number has not changed.

A *marker* names a run of the server: the script `poll` is loaded with it, and scripts are not kept over a start, nor
sent to replicas (by Valkey, and Redis from 7.0 on). So where no such script is, Redis may have come back older.
"""

import os
from functools import lru_cache
from hashlib import sha1
from typing import Final, NamedTuple

import redis

from weir.notifications.link import calls
from weir.notifications.link.calls import Link
from weir.notifications.link.keys import keys

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


def tell(state: str | None) -> None:
    """Note what PostgreSQL alone decides, for ten seconds; None: nothing that a poll may be answered by."""
    key = keys().watch
    if state is None:
        calls.ask(lambda link: link.call("DEL", key))
    else:
        calls.ask(lambda link: _tell(link, key, state))


def _tell(link: Link, key: str, state: str) -> None:
    kept = link.run("watch", [key], [state, _random(), ""])
    if kept and link.call("SCRIPT", "EXISTS", _poll(kept)[0])[0]:
        return
    marker = _random()  # never an old one: what it stood for is over
    if link.run("watch", [key], [state, _random(), marker]):  # scripts stay: a full server gets none for nothing
        link.call("SCRIPT", "LOAD", _poll(marker)[1])


def bump() -> None:
    """Note that PostgreSQL's part has changed."""
    calls.run("bump", [keys().watch], [_random()])


def watched() -> Watched | None:
    """Return what a number that is read from now on may be remembered with; None where nobody watches PostgreSQL."""
    key = keys().watch
    marker, _, rest = str(calls.ask(lambda link: link.call("GET", key)) or "").partition(" ")
    return Watched(marker, rest.partition(" ")[0]) if rest else None


def poll(marker: str, user: str, epoch: int) -> Polled | None:
    """Ask by one call what the user's deltas came to since this epoch was open; None where that cannot be told."""
    ours = keys()
    of_script = [ours.epoch, ours.sealed, ours.incarnation, ours.watch, ours.open, ours.deltas, *_pasts()]

    def question(link: Link) -> list[str] | None:
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
    text = f"{calls.script('poll').text}-- {marker}\n"
    return sha1(text.encode(), usedforsecurity=False).hexdigest(), text


def _random() -> str:
    return os.urandom(8).hex()
