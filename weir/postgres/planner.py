"""The planner's settings, for reads that must find their rows by indexes, whatever PostgreSQL's statistics say.

PostgreSQL reads a whole table if it expects most rows to match: a new installation has no statistics, and old ones say
that a state is common which no row has any more. Both calls hold until the caller's transaction ends. Without one, they
do nothing.
"""

from django.db import connection


def by_indexes() -> None:
    """Let the rest of the transaction find rows by indexes, if any serves."""
    _switch_off("seqscan")


def in_index_order(*, sorts_equals: bool = False) -> None:
    """Let the rest of the transaction read rows in the order of an index, so that a LIMIT ends the reading.

    `sorts_equals`: the index has only the first columns of the order; rows that are equal by these are sorted.
    """
    _switch_off("seqscan", "bitmapscan", "sort", *([] if sorts_equals else ["incremental_sort"]))


def _switch_off(*ways: str) -> None:
    settings = ", ".join(f"set_config('enable_{way}', 'off', true)" for way in ways)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {settings}")
