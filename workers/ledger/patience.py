"""Writes what only this process knows, although PostgreSQL is away for a while."""

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, InternalError, OperationalError, connection

from weir.logs.loggers import get_logger
from weir.postgres import sessions

WRITE_WITHIN_S = 60.0  # how long an outcome is kept in memory while PostgreSQL is away
TRY_EVERY_S = 0.5
Result = TypeVar("Result")

log = get_logger(__name__)


def patiently(write: Callable[[], Result], event: str) -> Result:
    """Call `write`. While PostgreSQL is away, log the event, and try again for a minute."""
    give_up_at = time.monotonic() + WRITE_WITHIN_S
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError, InternalError) as error:  # InternalError: the server is read-only
            sessions.leave(connection)
            if time.monotonic() > give_up_at:
                raise
            log.warning(event, error=str(error))
            time.sleep(TRY_EVERY_S)
