"""claim and each_locked: each row goes to one, and nobody waits. On orders, but for any model."""

from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Concat

from tests.integration.conftest import InThreads, waiting_for_nobody
from tests.integration.mail.shipments import DATABASE, place, ship
from weir.workers.claims import claim, each_locked
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState
from weir.workers.orders.models import Order

pytestmark = [DATABASE, pytest.mark.usefixtures("messages")]
FREE = Order.objects.filter(customer_email__startswith="plain").order_by("-pk")


def places(count: int) -> list[int]:
    """Place so many orders and return their keys, the newest first: in the order of FREE."""
    return sorted((place().pk for _ in range(count)), reverse=True)


def test_the_first_rows_are_claimed_in_order_and_marked() -> None:
    """As many as asked for; what is marked is committed, and in the rows that are returned."""
    keys = places(3)
    claimed = claim(FREE, 2, customer_email="mine")
    assert [order.pk for order in claimed] == keys[:2]
    assert {order.customer_email for order in claimed} == {"mine"}
    assert [order.pk for order in Order.objects.filter(customer_email="mine").order_by("-pk")] == keys[:2]
    assert not connection.in_atomic_block


def test_a_mark_may_be_an_expression() -> None:
    """It is in the database then; the row that is returned has what it had."""
    (key,) = places(1)
    (claimed,) = claim(FREE, 5, customer_email=Concat(Value("mine-"), F("number")))
    assert Order.objects.get(pk=key).customer_email == f"mine-{claimed.number}"
    assert claimed.customer_email.startswith("plain")


def test_locked_rows_are_skipped_not_waited_for(other_connection: psycopg.Connection[Any]) -> None:
    """By claim and by each_locked alike."""
    keys = places(3)
    other_connection.execute("SELECT FROM weir_orders_order WHERE id = %s FOR UPDATE", [keys[0]])
    with waiting_for_nobody():
        assert [order.pk for order in claim(FREE, 1, customer_email="mine")] == [keys[1]]
        seen: list[int] = []
        assert each_locked(FREE, lambda order: seen.append(order.pk)) == 1
    assert seen == [keys[2]]


def test_rows_that_are_selected_along_are_not_locked(other_connection: psycopg.Connection[Any]) -> None:
    """Another session may be writing the e-mail whose resolution is claimed."""
    email = ship()
    Email.objects.update(state=EmailState.FAILED, last_reply="no")
    resolving.resolve(email.pk, act=Act.RESEND, who="kim", why="The address is right now")
    other_connection.execute("SELECT FROM weir_mail_email WHERE id = %s FOR UPDATE", [email.pk])
    with waiting_for_nobody():
        (claimed,) = claim(Resolution.objects.select_related("email"), 1, why="mine")
    assert claimed.email.message_id == email.message_id


def test_no_row_is_claimed_twice_however_many_claim(in_threads: InThreads) -> None:
    """Eight at once, until nothing is left."""
    keys = places(200)

    def claim_all(_number: int) -> list[int]:
        mine: list[int] = []
        while claimed := claim(FREE, 7, customer_email="taken"):
            mine += [order.pk for order in claimed]
        return mine

    shares = in_threads(8, claim_all)
    assert sorted((key for share in shares for key in share), reverse=True) == keys


def test_a_claim_inside_a_transaction_is_refused() -> None:
    """It could be rolled back after something was done with it."""
    places(1)
    for work in (lambda: claim(FREE, 1, customer_email="mine"), lambda: each_locked(FREE, lambda _: None)):
        with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
            work()


def test_a_claim_without_marks_or_rows_is_refused() -> None:
    """It would hand the same rows to everybody, or none to anybody."""
    with pytest.raises(ValueError, match="marks"):
        claim(FREE, 1)
    with pytest.raises(ValueError, match="at least 1"):
        claim(FREE, 0, customer_email="mine")


def test_each_row_is_looked_at_again_under_its_lock() -> None:
    """What somebody changed between the two looks is left alone, and so is who is gone."""
    keys = places(4)
    worked_on: list[int] = []

    def work(order: Order) -> None:
        worked_on.append(order.pk)
        Order.objects.filter(pk=keys[1]).update(customer_email="another's")
        Order.objects.filter(pk=keys[2]).delete()

    assert each_locked(FREE, work) == 2
    assert worked_on == [keys[0], keys[3]]


def test_each_rows_work_commits_with_its_lock_and_an_error_undoes_one_row() -> None:
    """Rows before it are done; the error is the caller's."""
    keys = places(3)

    def work(order: Order) -> None:
        Order.objects.filter(pk=order.pk).update(customer_email="done")
        if order.pk == keys[1]:
            raise LookupError

    with pytest.raises(LookupError):
        each_locked(FREE, work)
    assert [order.pk for order in Order.objects.filter(customer_email="done")] == keys[:1]
    assert not connection.in_atomic_block


def test_as_many_are_worked_on_as_asked_for() -> None:
    """The first ones of the queryset."""
    keys = places(3)
    seen: list[int] = []
    assert each_locked(FREE, lambda order: seen.append(order.pk), limit=2) == 2
    assert seen == keys[:2]


def test_each_rows_work_is_done_once_however_many_call_it(in_threads: InThreads) -> None:
    """Six at once, each of whom would work on all."""
    keys = places(60)

    def work(order: Order) -> None:
        Order.objects.filter(pk=order.pk).update(customer_email=Concat(Value("done-"), F("customer_email")))

    assert sum(in_threads(6, lambda _: each_locked(FREE, work))) == len(keys)
    assert Order.objects.filter(customer_email__startswith="done-plain").count() == len(keys)
