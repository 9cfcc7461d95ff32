"""The planner's settings, for reads that must find their rows by indexes, whatever PostgreSQL's statistics say.

PostgreSQL reads a whole table if it expects most rows to match. A new installation has no statistics, and old
statistics may say that a state is common although no row has it any more. The effect of both calls lasts until the
caller's transaction ends. Outside of a transaction, the calls do nothing.

A way that is switched off, and is taken all the same for want of another one, costs so much by PostgreSQL's reckoning
(up to version 17) that it would compile the statement (`jit`). That takes seconds, so it is switched off, too.
"""

from django.db import connection


def by_indexes() -> None:
    """Let the rest of the transaction find rows by indexes, if an index serves the query."""
    _switch(enable_seqscan=False)


def in_index_order(*, sorts_equals: bool = False) -> None:
    """Let the rest of the transaction read rows in the order of an index, so that a LIMIT ends the reading.

    `sorts_equals`: the index has only the first columns of the order; PostgreSQL sorts rows that are equal in these. Of
    two calls in a transaction, the second one counts.
    """
    _switch(enable_seqscan=False, enable_bitmapscan=False, enable_sort=False, enable_incremental_sort=sorts_equals)


def _switch(**switches: bool) -> None:
    values = {name: "on" if is_on else "off" for name, is_on in {**switches, "jit": False}.items()}
    settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in values.items())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {settings}")
