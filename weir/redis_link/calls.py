"""Calls of Redis' scripts, over connections that this process keeps.

redis-py's own client takes as long for a call as Redis and the network together, most of it for its pool. So this
module sends and reads on connections of its own.

No call is repeated, because Redis may have done it already, and would do it twice. Functions raise RedisUnreachable if
Redis refuses, or does not answer in time; in the second case it may have done what it was asked. A call that must not
be done late is made by `run_in_time`.
"""

import math
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, Final

import hiredis
import redis

from weir.conf.rooms import folder_of
from weir.redis_link import places

LEFT_ALONE_S: Final = 1.0  # after an error this process does not ask Redis again for so long
# By so much a deadline is later than the time-out of the answer. What is known of Redis' clock is early by up to a
# round trip, so a shorter time would refuse calls that come in time.
SLACK_S: Final = 0.25
KNOWN_FOR_S: Final = 60.0  # in this time, two clocks that are kept in step drift apart by 0.03 s
REDIRECTS: Final = 2  # of a cluster: to the node that has our keys, and to the one that got them meanwhile
# redis-py packs with this, too, but takes twice the time around it. Its type says that a command is one word.
_pack: Any = hiredis.pack_command
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: drop what was not sent yet


class RedisUnreachable(Exception):
    """Redis did not answer, or refused."""


class Script:
    """A script: the file `<name>.lua` in the folder `lua/` of the caller's package, or of the nearest one above it."""

    def __init__(self, name: str) -> None:
        _, folder = folder_of(sys._getframe(1).f_globals, "lua")  # noqa: SLF001  as typing.NamedTuple does
        self.name = name
        self.text = (folder / f"{name}.lua").read_text(encoding="utf-8")
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()  # the name that Redis gives it


@dataclass(kw_only=True, slots=True)
class _Outage:
    """The last time that this process did not reach Redis."""

    over_at: float = 0.0  # of time.monotonic()
    reason: str = ""


@dataclass(slots=True)
class RedisLink:
    """A connection, and what is known of the clock of the server at its other end."""

    connection: Any  # redis-py's, whose methods are not typed
    ahead_s: float = 0.0  # that clock minus time.monotonic(); it may be more, by a round trip
    known_until: float = -math.inf  # of time.monotonic()
    name: str = field(default_factory=lambda: os.urandom(8).hex())
    latest_us: int = 0  # the last deadline that was sent under this name

    def call(self, *command: str | int) -> Any:  # noqa: ANN401  what Redis answers
        """Send a command, and return the answer."""
        self.connection.send_packed_command([_pack(command)])
        return self.connection.read_response(disconnect_on_error=False)

    def run(self, script: Script, keys: Collection[str], arguments: Collection[str | int]) -> Any:  # noqa: ANN401
        """Run a script; its text is sent only if Redis does not know it."""
        try:
            return self.call("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except redis.exceptions.NoScriptError:
            return self.call("EVAL", script.text, len(keys), *keys, *arguments)

    def deadline_us(self) -> int:
        """Return the time, by Redis' clock, after which no caller waits any more for a call that is sent now.

        Under one name, each deadline is later than the one before.
        """
        if time.monotonic() > self.known_until:
            seconds, microseconds = self.call("TIME")
            self.note_time(int(seconds) * 1_000_000 + int(microseconds))
        deadline = int((time.monotonic() + self.ahead_s + places.ANSWER_TIMEOUT_S + SLACK_S) * 1_000_000)
        if deadline <= self.latest_us:  # Redis' clock was set back
            self.name = os.urandom(8).hex()
        self.latest_us = deadline
        return deadline

    def note_time(self, microseconds: int) -> None:
        """Record what Redis' clock showed shortly before now."""
        now = time.monotonic()
        self.ahead_s, self.known_until = microseconds / 1_000_000 - now, now + KNOWN_FOR_S

    def is_usable(self) -> bool:
        """Return whether nothing has come since the last answer, such as the end of the connection."""
        try:
            return not self.connection.can_read()
        except (redis.RedisError, OSError):
            return False

    def give_up(self) -> None:
        """Close the connection. What the kernel has not sent yet is dropped."""
        if opened := getattr(self.connection, "_sock", None):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.connection.disconnect()


class _AskingLink(RedisLink):
    """A connection to the node of a cluster that our keys are being moved to, and that does not own them yet."""

    def call(self, *command: str | int) -> Any:  # noqa: ANN401  what Redis answers
        super().call("ASKING")  # lets in the next command only
        return super().call(*command)


_outage = _Outage()
_idle: list[RedisLink] = []
_stand_ins: list[RedisLink] = []  # the last one is asked


def run(script: Script, keys: Collection[str], arguments: Collection[str | int]) -> Any:  # noqa: ANN401  what it returns
    """Run a script."""
    return ask(lambda link: link.run(script, keys, arguments))


def run_in_time(script: Script, keys: Collection[str], arguments: Collection[str | int]) -> None:
    """Run a script that does nothing after a deadline, when no caller waits for it, and nothing the second time.

    Its first arguments are the deadline and the connection's name: a network that repeats a call repeats both.
    The script returns Redis' time in microseconds, negative where that was past the deadline. Then this raises
    RedisUnreachable.
    """

    def in_time(link: RedisLink) -> int:
        answer: int = link.run(script, keys, [link.deadline_us(), link.name, *arguments])
        link.note_time(abs(answer))
        return answer

    if ask(in_time) < 0:
        raise RedisUnreachable("Redis was asked too late, or its clock was set.")


def ask(question: Callable[[RedisLink], Any]) -> Any:  # noqa: ANN401  what it returns
    """Call the question with a connection, and return what it returns.

    A node of a cluster that does not have our keys does nothing, and says which node has them (MOVED, or ASK while they
    are being moved); that node is asked then. While the keys are on two nodes, both refuse (TRYAGAIN).
    """
    if _stand_ins:
        return question(_stand_ins[-1])
    if time.monotonic() < _outage.over_at:  # no caller waits for one time-out after the other
        raise RedisUnreachable(_outage.reason)
    try:
        for _ in range(REDIRECTS):
            try:
                return _ask_once(question)
            except redis.exceptions.MovedError as moved:
                places.move(moved.host, moved.port)
            except redis.exceptions.AskError as asked:
                return _ask_new_node(question, asked)
        return _ask_once(question)
    except (redis.RedisError, OSError) as error:
        _outage.over_at, _outage.reason = time.monotonic() + LEFT_ALONE_S, str(error)
        raise RedisUnreachable(str(error)) from error


def forget() -> None:
    """Forget the outage and all connections, as in a process that begins."""
    _outage.over_at = 0.0
    _idle.clear()
    places.forget()


@contextmanager
def answered_by(link: RedisLink) -> Iterator[None]:
    """Let this process ask the given link in place of Redis: in tests."""
    _stand_ins.append(link)
    try:
        yield
    finally:
        _stand_ins.remove(link)


def _ask_once(question: Callable[[RedisLink], Any]) -> Any:  # noqa: ANN401  what it returns
    link = _take()
    try:
        answer = question(link)
    except BaseException:
        link.give_up()
        raise
    _idle.append(link)
    return answer


def _ask_new_node(question: Callable[[RedisLink], Any], asked: redis.exceptions.AskError) -> Any:  # noqa: ANN401  as above
    link = _AskingLink(places.connect_to(asked.host, asked.port))
    try:
        return question(link)
    finally:
        link.give_up()


def _take() -> RedisLink:
    while True:
        try:
            link = _idle.pop()
        except IndexError:
            return RedisLink(places.connect())
        if link.is_usable():
            return link
        link.give_up()


os.register_at_fork(after_in_child=_idle.clear)  # they are the parent's
