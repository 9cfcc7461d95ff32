"""The correlation id, which names the web request, or the task of a user, that asked for a piece of work.

The id is in log lines (the key `correlation_id`), in the rows of the requested fetches and e-mails, and in messages of
tasks. Work that serves many rows together, such as a batch of fetches, has no id; a step of it for a single row has the
id of that row.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from structlog import contextvars

KEY = "correlation_id"
LONGEST = 64  # characters
_SAFE = re.compile(rf"[A-Za-z0-9._~:+/=-]{{1,{LONGEST}}}")


def safe(given: object) -> str:
    """Return `given` if it may be an id, else "". Strangers choose it, and it is written into rows and log lines."""
    return given if isinstance(given, str) and _SAFE.fullmatch(given) else ""


def current() -> str:
    """Return the correlation id of this thread or asyncio task; "" without one."""
    return safe(contextvars.get_contextvars().get(KEY))


def bind(correlation_id: str) -> None:
    """Give this id to all later log lines, rows and messages of this thread or asyncio task; "" gives them none."""
    if correlation_id:
        contextvars.bind_contextvars(**{KEY: correlation_id})
    else:
        contextvars.unbind_contextvars(KEY)


@contextmanager
def bound(correlation_id: str) -> Iterator[None]:
    """Give this id to the log lines of the block, and to what it asks for; if the id is empty, they have none."""
    before = current()
    bind(correlation_id)
    try:
        yield
    finally:
        bind(before)
