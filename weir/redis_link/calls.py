"""Calls of Redis' scripts, over connections that this process keeps.

In redis-py's own client, a call takes as much time as Redis and the network together need for it, most of that in the
client's pool. So this module sends and reads on connections of its own.

No call is repeated, because Redis may have executed it already, and would execute it twice. Functions raise
RedisUnreachable if Redis refuses, or does not answer in time. If Redis does not answer in time, it may have executed
the call all the same. `run_in_time` is for calls that must not be executed late.
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

LEFT_ALONE_S: Final = 1.0  # how long this process does not ask Redis again after an error
# How much later the deadline of a call is than the time-out of its answer. The known time of Redis' clock may be early
# by a round trip. So with less slack, Redis would refuse calls that arrive in time.
SLACK_S: Final = 0.25
KNOWN_FOR_S: Final = 60.0  # in this time, two synchronised clocks drift apart by 0.03 s
REDIRECTS: Final = 2  # in a cluster: to the node that has our keys, and to the node that got them meanwhile
# redis-py uses this function, too, but adds as much time again. The declared type wrongly says that a command is one
# word.
_pack: Any = hiredis.pack_command
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: drop the bytes that were not sent yet


class RedisUnreachable(Exception):
    """Redis did not answer, or refused."""


class Script:
    """The script in `<name>.lua`, in the folder `lua/` of the caller's package, or of the nearest package above it."""

    def __init__(self, name: str) -> None:
        _, folder = folder_of(sys._getframe(1).f_globals, "lua")  # noqa: SLF001  as typing.NamedTuple does
        self.name = name
        self.text = (folder / f"{name}.lua").read_text(encoding="utf-8")
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()  # the name that Redis gives it


@dataclass(kw_only=True, slots=True)
class _Outage:
    """The last time that this process did not reach Redis."""

    over_at: float = 0.0  # when Redis may be asked again, by time.monotonic()
    reason: str = ""


@dataclass(slots=True)
class RedisLink:
    """A connection, and what this process knows about the clock of the server at the other end."""

    connection: Any  # redis-py's, whose methods are not typed
    ahead_s: float = 0.0  # the server's clock minus time.monotonic(); the true value may be greater by a round trip
    known_until: float = -math.inf  # until when `ahead_s` may be used, by time.monotonic()
    name: str = field(default_factory=lambda: os.urandom(8).hex())
    latest_us: int = 0  # the last deadline that was sent with this name

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

        Each deadline is later than the one before under the same name of the connection.
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
        """Return whether nothing has arrived since the last answer, such as the server's end of the connection."""
        try:
            return not self.connection.can_read()
        except (redis.RedisError, OSError):
            return False

    def give_up(self) -> None:
        """Close the connection, and drop the bytes that the kernel has not sent yet."""
        if opened := getattr(self.connection, "_sock", None):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.connection.disconnect()


class _AskingLink(RedisLink):
    """A connection to the node of a cluster to which our keys are being moved, but which does not own them yet."""

    def call(self, *command: str | int) -> Any:  # noqa: ANN401  what Redis answers
        super().call("ASKING")  # lets in the next command only
        return super().call(*command)


_outage = _Outage()
_idle: list[RedisLink] = []
_stand_ins: list[RedisLink] = []  # the last one is asked in place of Redis


def run(script: Script, keys: Collection[str], arguments: Collection[str | int]) -> Any:  # noqa: ANN401  what the script returns
    """Run a script; returns its result. Raises RedisUnreachable."""
    return ask(lambda link: link.run(script, keys, arguments))


def run_in_time(script: Script, keys: Collection[str], arguments: Collection[str | int]) -> None:
    """Run a script that does nothing after its deadline, when no caller waits any more.

    The script's first arguments are the deadline and the connection's name. A network that delivers a call twice
    repeats both arguments, and the script does nothing the second time. The script returns Redis' time in microseconds,
    as a negative number if the deadline had passed. In that case this function raises RedisUnreachable.
    """

    def in_time(link: RedisLink) -> int:
        answer: int = link.run(script, keys, [link.deadline_us(), link.name, *arguments])
        link.note_time(abs(answer))
        return answer

    if ask(in_time) < 0:
        raise RedisUnreachable("Redis was asked too late, or its clock was set.")


def ask(question: Callable[[RedisLink], Any]) -> Any:  # noqa: ANN401  what the question returns
    """Call the question with a connection, and return the question's result. Raises RedisUnreachable.

    A node of a cluster that does not have our keys executes nothing, and names the node that has them (MOVED, or ASK
    while the keys are being moved). Then this function asks that node. While the keys are on two nodes, both nodes
    refuse (TRYAGAIN).
    """
    if _stand_ins:
        return question(_stand_ins[-1])
    if time.monotonic() < _outage.over_at:  # so that a caller waits for one time-out, not for several
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
    """Forget the outage and all connections, as if the process had just started."""
    _outage.over_at = 0.0
    _idle.clear()
    places.forget()


@contextmanager
def answered_by(link: RedisLink) -> Iterator[None]:
    """Let this process ask the given link in place of Redis, in tests."""
    _stand_ins.append(link)
    try:
        yield
    finally:
        _stand_ins.remove(link)


def _ask_once(question: Callable[[RedisLink], Any]) -> Any:  # noqa: ANN401  what the question returns
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


os.register_at_fork(after_in_child=_idle.clear)  # the connections belong to the parent
