"""What a request asks of PostgreSQL: how many statements, with which plans, and which of them read a whole large table.

Each statement is explained where it is executed: in its transaction, with its values and under its settings.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import psycopg
from django.db import connection
from psycopg.abc import Params
from psycopg.abc import QueryNoTemplate as Query
from psycopg.pq import TransactionStatus

LARGE_TABLE = 10_000  # rows
READ = re.compile(r"(\s|--[^\n]*\n)*(SELECT|WITH)\b")
COUNTS = "SELECT relname, reltuples::bigint FROM pg_class WHERE relkind = 'r' AND reltuples > %s"
NO_LIMIT = "SELECT set_config('statement_timeout', '0', true)"
Cursor = psycopg.Cursor[Any]
Node = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A statement that was executed; `nodes` and `plan` are empty if it is not a query."""

    text: str
    plan: str
    nodes: list[Node]

    def reads_whole(self, large: dict[str, int]) -> Iterator[str]:
        """Yield which large tables it reads from end to end, and how: by a sequential scan, or at least half."""
        for node in self.nodes:
            rows = large.get(node.get("Relation Name", ""), 0)
            if not rows or not node["Actual Loops"]:
                continue
            read = _rows_read(node)
            if node["Node Type"] == "Seq Scan" or read > rows / 2:
                index = f" by {node['Index Name']}" if "Index Name" in node else ""
                yield f"{node['Node Type']} on {node['Relation Name']}{index}: {read:,} of {rows:,} rows"


@contextmanager
def explained() -> Iterator[list[Asked]]:
    """Explain all statements that this process executes in the block."""
    asked: list[Asked] = []
    execute = Cursor.execute

    def noted(cursor: Cursor, query: Query, parameters: Params | None = None, **options: bool | None) -> Cursor:
        with mock.patch.object(psycopg.Cursor, "execute", execute):
            asked.append(_explain(cursor, query, parameters))
        return execute(cursor, query, parameters, **options)

    with mock.patch.object(psycopg.Cursor, "execute", noted):
        yield asked


def large_tables() -> dict[str, int]:
    """Return the tables with more than LARGE_TABLE rows, and how many they have."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTS, [LARGE_TABLE])
        return dict(cursor.fetchall())


def _explain(asking: Cursor, query: Query, parameters: Params | None) -> Asked:
    """Return how the statement is executed. It is executed twice, so only statements that read are explained."""
    text = query if isinstance(query, str) else ""
    if not READ.match(text) or "set_config" in text:
        return Asked(text=text, plan="", nodes=[])
    # Django's cursors write the values into the text, Weir's do not.
    kind = psycopg.ClientCursor if isinstance(asking, psycopg.ClientCursor) else psycopg.Cursor
    with kind(asking.connection) as cursor, _without_limit(cursor):
        plan = cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + text, parameters).fetchall()
        [(found,)] = cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + text, parameters).fetchall()
    root = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return Asked(text=text, plan="\n".join(line for (line,) in plan), nodes=list(_nodes(root)))


@contextmanager
def _without_limit(cursor: Cursor) -> Iterator[None]:
    """Remove the time limit of statements in the open transaction, if there is one."""
    if cursor.connection.info.transaction_status is not TransactionStatus.INTRANS:
        yield
        return
    [(limit,)] = cursor.execute("SELECT current_setting('statement_timeout')").fetchall()
    cursor.execute(NO_LIMIT)
    yield
    cursor.execute("SELECT set_config('statement_timeout', %s, true)", [limit])


def _nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _rows_read(node: Node) -> int:
    passed_over = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    rows: float = node["Actual Rows"] + sum(node.get(key, 0) for key in passed_over)
    return round(float(node["Actual Loops"]) * rows)
