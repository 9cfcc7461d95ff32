"""What PostgreSQL would do, as EXPLAIN tells it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from tests.rooms import statement

KNOWN: dict[str, object] = {"known_generation": 0, "clock": None}  # for the gate (weir/postgres/timeline/gate.py)


def plan_of(room: str, name: str, parameters: dict[str, object]) -> list[dict[str, Any]]:
    """Return the nodes of the plan for a statement with these parameters."""
    return explain(statement(room, name).text, KNOWN | parameters)


def generic_plan_of(room: str, name: str) -> list[dict[str, Any]]:
    """Return the nodes of the plan for a prepared statement, whatever its parameters will be.

    Skips the test where PostgreSQL cannot tell.
    """
    connection.ensure_connection()
    if connection.connection.info.server_version < 160000:
        pytest.skip("EXPLAIN (GENERIC_PLAN) needs PostgreSQL 16")
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return explain(re.sub(r"%\((\w+)\)s", place, statement(room, name).text), options="GENERIC_PLAN, ")


def explain(text: str, parameters: dict[str, object] | None = None, options: str = "") -> list[dict[str, Any]]:
    """Return the nodes of the plan for a query."""
    connection.ensure_connection()
    with connection.connection.cursor() as cursor:
        answer = cursor.execute(f"EXPLAIN ({options}FORMAT JSON) {text}", parameters).fetchone()[0]
    return list(_nodes((json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]))


def rows_read(room: str, name: str, parameters: dict[str, object], *tables: str) -> int:
    """Execute the statement, undo it, and return how many rows of these tables it looked at, used or not."""
    return rows_read_by(statement(room, name).text, *tables, parameters=KNOWN | parameters)


def rows_read_by(text: str, *tables: str, parameters: dict[str, object] | None = None) -> int:
    """Execute the query, undo it, and return how many rows of these tables it looked at, used or not."""
    with transaction.atomic():
        nodes = explain(text, parameters, options="ANALYZE, ")
        transaction.set_rollback(True)
    passed_over = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return sum(
        round(node["Actual Loops"] * (node["Actual Rows"] + sum(node.get(key, 0) for key in passed_over)))
        for node in nodes
        if node.get("Relation Name") in tables and "Scan" in node["Node Type"]
    )


def believe_empty(table: str) -> None:
    """Make PostgreSQL plan as if the table had been vacuumed while it was empty, as a queue is at night.

    Until the next ANALYZE it expects one row, however many there are.
    """
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])
        cursor.execute("UPDATE pg_class SET reltuples = 0, relpages = 1 WHERE oid = %s::regclass", [table])


def scanned(room: str, name: str, parameters: dict[str, object]) -> set[str]:
    """Return the tables that the statement would read from end to end."""
    return {node["Relation Name"] for node in plan_of(room, name, parameters) if node["Node Type"] == "Seq Scan"}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)
