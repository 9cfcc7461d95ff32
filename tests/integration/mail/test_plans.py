"""What is due is found by its index, among 200,000 e-mails of which 50 are due, however many wait for later."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from tests.integration.plans import explain
from workers.mail.models import Email, State

ROWS, DUE = 200_000, 50
FILL = f"""
    INSERT INTO mail_email (kind, key, message_id, state, attempts, next_attempt_at, claimed_by, phase,
        last_reply, sent_at)
    SELECT 'order.shipped', n, '', state, 0,
        now() + CASE WHEN is_due THEN -interval '1 minute' ELSE interval '1 hour' END, '', '', 'x',
        CASE WHEN state = 'sent' THEN now() END
    FROM (
        SELECT n, n %% {ROWS // DUE} = 0 AS is_due, CASE WHEN n %% {ROWS // DUE} = 0 THEN 'pending' ELSE %s END AS state
        FROM generate_series(1, {ROWS}) AS n
    ) AS numbered
"""


@pytest.fixture(params=[State.SENT, State.PENDING])
def _many(transactional_db: None, request: pytest.FixtureRequest) -> None:  # noqa: ARG001  must come first
    """50 are due; the others are sent, or wait for their next attempt in an hour."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [request.param])
        cursor.execute("VACUUM ANALYZE mail_email")


def nodes(queryset: QuerySet[Any]) -> list[dict[str, Any]]:
    """Return the nodes of the plan for what claim() would execute."""
    locked = queryset.select_for_update(of=("self",), skip_locked=True)[:50]
    with transaction.atomic():  # else Django refuses to lock
        text, parameters = locked.query.sql_with_params()
        names = [f"p{number}" for number in range(len(parameters))]
        return explain(text % tuple(f"%({name})s" for name in names), dict(zip(names, parameters, strict=True)))


@pytest.mark.usefixtures("_many")
def test_what_is_due_or_held_is_found_by_an_index() -> None:
    """What is due in the order in which it is claimed: no sorting, and no look at what is not due."""
    assert Email.objects.due().count() == DUE
    plan = nodes(Email.objects.due())
    indexes = {node["Relation Name"]: node["Index Name"] for node in plan if "Index Name" in node}
    assert indexes["mail_email"] == "email_pending"
    assert not {"Seq Scan", "Sort"} & {node["Node Type"] for node in plan}

    for held in (
        Email.objects.abandoned(),
        Email.objects.silent(timedelta(seconds=900)),
        Email.objects.unknown(),
    ):
        assert {node.get("Index Name", "email_held") for node in nodes(held)} == {"email_held"}
        assert "Seq Scan" not in {node["Node Type"] for node in nodes(held)}
