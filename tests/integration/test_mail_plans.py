"""What is due is found by its index, among 200,000 e-mails of which 50 are due, however many wait for later."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from tests.integration.plans import explain
from workers.orders.models import ShippedEmail, State

ROWS, DUE = 200_000, 50
FILL = f"""
    INSERT INTO orders_order (number, customer_email, shipped_at)
    SELECT n, 'kim@customers.example', now() FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO orders_shippedemail (order_id, message_id, state, attempts, next_attempt_at, claimed_by, phase,
        last_reply, sent_at)
    SELECT id, '', state, 0, now() + CASE WHEN is_due THEN -interval '1 minute' ELSE interval '1 hour' END, '', '', 'x',
        CASE WHEN state = 'sent' THEN now() END
    FROM (
        SELECT id, row_number() OVER (ORDER BY id) %% {ROWS // DUE} = 0 AS is_due,
            CASE WHEN row_number() OVER (ORDER BY id) %% {ROWS // DUE} = 0 THEN 'pending' ELSE %s END AS state
        FROM orders_order
    ) AS numbered
"""


@pytest.fixture(params=[State.SENT, State.PENDING])
def _many(transactional_db: None, request: pytest.FixtureRequest) -> None:  # noqa: ARG001  must come first
    """50 are due; the others are sent, or wait for their next attempt in an hour."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [request.param])
        cursor.execute("VACUUM ANALYZE orders_order, orders_shippedemail")


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
    assert ShippedEmail.objects.due().count() == DUE
    plan = nodes(ShippedEmail.objects.due().select_related("order"))
    indexes = {node["Relation Name"]: node["Index Name"] for node in plan if "Index Name" in node}
    assert indexes["orders_shippedemail"] == "shippedemail_pending"
    assert not {"Seq Scan", "Sort"} & {node["Node Type"] for node in plan}

    for held in (
        ShippedEmail.objects.abandoned(),
        ShippedEmail.objects.silent(timedelta(seconds=900)),
        ShippedEmail.objects.unknown(),
    ):
        assert {node.get("Index Name", "shippedemail_held") for node in nodes(held)} == {"shippedemail_held"}
        assert "Seq Scan" not in {node["Node Type"] for node in nodes(held)}
