"""Each operation: with no token, a wrong scope, the right one, one that has expired or was revoked, and read-only."""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from project.checkout import CHECKOUT
from tests.programs import OPERATIONS, Program, World, token
from weir.api.tokens import actions
from weir.api.tokens.models import Token
from weir.api.tokens.scopes import SCOPES
from weir.api.v1 import api
from weir.workers.audit import acting
from weir.workers.mail.models import Email

PAGE = CHECKOUT / "docs" / "reference" / "api.md"
BEGIN, END = "<!-- permissions -->\n", "<!-- /permissions -->\n"
WRITES = "WEIR_WRITE_TABLES" in os.environ  # makes the test write the table


@cache
def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return the method, the path and the document's words of each operation, by its id."""
    document = api.get_openapi_schema()
    return {
        words["operationId"]: (method.upper(), path, words)
        for path, methods in document["paths"].items()
        for method, words in methods.items()
    }


def test_each_operation_has_an_example(world: World) -> None:
    assert set(world.examples()) == set(operations())


def _expire() -> None:
    Token.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def _revoke() -> None:
    actions.revoke(acting.of_shell("pat"), "shop")


def statuses(name: str, scope: str, world: World, settings: Settings) -> dict[str, int]:
    """Return the status of the operation for each kind of token, first those that are not permitted."""
    example = world.examples()[name]

    def ask(program: Program) -> int:
        status: int = program.call(example.method, example.path, example.body, headers=example.headers).status_code
        return status

    def once(change: Callable[[], None]) -> int:
        change()
        return ask(right)

    others = [other for other in SCOPES if other != scope]
    right, wrong = Program(token(scope)), Program(token(*others, name="other"))
    found = {"no token": ask(Program()), "wrong scope": ask(wrong)}
    settings.WEIR_OPS_READ_ONLY = True
    found["read-only"] = ask(right)
    settings.WEIR_OPS_READ_ONLY = False
    Email.objects.exclude(pk=world.email).delete()  # the next request finds what this one did
    found["right scope"] = ask(right)
    return {**found, "expired": once(_expire), "revoked": once(_revoke)}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_for_those_with_its_scope(name: str, world: World, settings: Settings) -> None:
    """The page of reference has the same table; `WEIR_WRITE_TABLES=1` writes it."""
    method, path, words = operations()[name]
    example = world.examples()[name]
    found = statuses(name, words["x-scope"], world, settings)
    assert found == {
        "no token": 401,
        "wrong scope": 403,
        "right scope": example.status,
        "expired": 401,
        "revoked": 401,
        "read-only": 403 if example.is_operators else example.status,
    }
    told = ", ".join(map(str, dict.fromkeys((found["right scope"], found["read-only"]))))
    row = f"| `{method} {path.removeprefix('/api/v1')}` | `{words['x-scope']}` | {told} |"
    if WRITES:
        write(row)
    assert row in PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()


def write(row: str) -> None:
    """Put the row into the table, in place of the one of the same operation."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    head, rows = table.splitlines()[:3], table.splitlines()[3:]
    operation = row.split("|")[1]
    rows = [kept for kept in rows if kept and kept.split("|")[1] != operation]
    rows.append(row)
    PAGE.write_text(before + BEGIN + "\n".join([*head, *rows]) + "\n\n" + END + after)
