"""A process shares its connections to Redis with no other, and what their module relies on in libraries."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from redis.connection import Connection

from weir.redis_link import calls

_Connection: Any = Connection  # which is not typed


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Return the other end of an idle connection of this process."""
    calls.forget()  # what other tests left
    ours, theirs = socket.socketpair()
    connection: Any = _Connection()
    connection._sock = ours
    calls._idle.append(calls.RedisLink(connection))
    yield theirs
    calls.forget()
    theirs.close()


def test_a_forked_process_connects_anew_and_closes_nothing_of_its_parents(server: socket.socket) -> None:
    """Two processes on one connection would read each other's answers."""
    child = os.fork()
    if not child:
        os._exit(len(calls._idle))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(calls._idle) == 1
    server.setblocking(False)
    with pytest.raises(BlockingIOError):  # and not the end of the connection
        server.recv(1)


def test_the_settings_have_the_dictionary_that_connections_are_made_of() -> None:
    """Django's tests change it in place, so `weir.redis_link.keys` need not ask the connection."""
    assert connections["default"].settings_dict is settings.DATABASES["default"]


def test_a_packed_command_is_the_one_that_redis_py_sends() -> None:
    """Whatever texts and numbers a script is called with."""
    command = ("EVALSHA", "0a", 2, "{weir:1}:open", "", "\u00e4\U0001f600", "two words\r\n", -(2**62), 2**53)
    assert [calls._pack(command)] == _Connection().pack_command(*command)
