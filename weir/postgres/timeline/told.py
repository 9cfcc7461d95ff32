"""Whether the server tells its history at all: services that have replaced PostgreSQL's storage do not."""

import psycopg
from django.db import DatabaseError

from weir.postgres.statements import Statement

HISTORY = Statement("history", commits=False)

_OF_CONNECTION = ("08", "28", "53", "57")  # the classes of SQLSTATEs that say nothing about the server's history


def refusal() -> str:
    """Return why Weir cannot run on this server, and what to do, in two sentences; an empty string if Weir can.

    Raises the database errors that say nothing about the server's history: PostgreSQL is away, or its disk is full.
    """
    try:
        HISTORY()
    except DatabaseError as error:
        state = error.__cause__.sqlstate if isinstance(error.__cause__, psycopg.Error) else None
        if not state or state.startswith(_OF_CONNECTION):
            raise
        words = str(error).splitlines()[0]
        return (
            f"This server does not tell its history ({words}), by which Weir notices what PostgreSQL has forgotten: "
            "Amazon Aurora and services like it are not supported (docs/reference/versions.md). Use PostgreSQL itself."
        )
    return ""
