"""The planner's settings, for reads that must find their rows by indexes, whatever PostgreSQL's statistics say.

PostgreSQL reads a whole table if it expects most rows to match. A new installation has no statistics, and old
statistics may say that a state is common although no row has it any more. The effect of both calls lasts until the
caller's transaction ends. Outside of a transaction, the calls do nothing.
"""

from django.db import connection


def by_indexes() -> None:
    """Let the rest of the transaction find rows by indexes, if an index serves the query."""
    _switch(seqscan=False)


def in_index_order(*, sorts_equals: bool = False) -> None:
    """Let the rest of the transaction read rows in the order of an index, so that a LIMIT ends the reading.

    `sorts_equals`: the index has only the first columns of the order; PostgreSQL sorts rows that are equal in these. Of
    two calls in a transaction, the second one counts.
    """
    _switch(seqscan=False, bitmapscan=False, sort=False, incremental_sort=sorts_equals)


def _switch(**ways: bool) -> None:
    values = {way: "on" if is_on else "off" for way, is_on in ways.items()}
    settings = ", ".join(f"set_config('enable_{way}', '{value}', true)" for way, value in values.items())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {settings}")
