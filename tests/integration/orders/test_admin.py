"""The admin pages of orders: what is shipped, what may be put right, and who may not."""

from typing import Any

import psycopg
import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.integration.admin_pages import act, page
from tests.integration.conftest import Eventually, InThreads, Message, WaitersOf
from weir.postgres import short_paginator
from weir.workers.audit.models import Entry
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.orders import admin, shipping
from weir.workers.orders.models import Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

ORDER = "admin:weir_orders_order"


def order(number: str, address: str = "customer@example.com") -> Order:
    created: Order = Order.objects.create(number=number, customer_email=address)
    return created


def shipped(number: str, address: str = "customer@example.com") -> Order:
    placed = order(number, address)
    shipping.ship(placed.pk)
    return placed


def test_orders_are_listed_found_and_filtered(admin_client: Client) -> None:
    """By the beginning of the number or the address, and by whether they are shipped; the newest first."""
    order("A-1", "ada@example.com")
    order("B-2", "bob@example.com")
    shipped("C-3")
    everything = page(admin_client, f"{ORDER}_changelist")
    assert everything.index("C-3") < everything.index("B-2") < everything.index("A-1")
    for query in ("A-", "ada@"):
        found = page(admin_client, f"{ORDER}_changelist", q=query)
        assert "A-1" in found
        assert "B-2" not in found
    assert "A-1" not in page(admin_client, f"{ORDER}_changelist", q="da@example")
    assert "C-3" not in page(admin_client, f"{ORDER}_changelist", shipped_at__isempty="1")


def test_an_order_is_added_changed_and_then_only_looked_at(admin_client: Client) -> None:
    """Until its e-mail is on its way; no form sets the time of shipping."""
    values = {"number": "A-1", "customer_email": "old@example.com", "shipped_at_0": "2026-01-01", "_save": "Save"}
    assert "DatabaseDefault" not in page(admin_client, f"{ORDER}_add")
    assert admin_client.post(reverse(f"{ORDER}_add"), values).status_code == 302
    added = Order.objects.get()
    assert added.shipped_at is None
    change = reverse(f"{ORDER}_change", args=[added.pk])
    for address in ("new@example.com", "new@example.com"):
        assert admin_client.post(change, {**values, "customer_email": address}).status_code == 302
    assert Order.objects.get().customer_email == "new@example.com"
    shipping.ship(added.pk)
    Email.objects.update(state=EmailState.SENT, sent_at=Now())
    assert 'name="_save"' not in page(admin_client, f"{ORDER}_change", added.pk)
    assert admin_client.post(change, values).status_code == 403
    assert admin_client.post(reverse(f"{ORDER}_delete", args=[added.pk]), {"post": "yes"}).status_code == 403
    assert Order.objects.get().customer_email == "new@example.com"


REFUSED = {"state": EmailState.FAILED, "phase": Phase.NOT_BEGUN, "last_reply": "550 no such recipient"}


@pytest.mark.parametrize("fields", [REFUSED, {}], ids=["failed", "pending"])
def test_the_address_of_an_email_that_was_not_accepted_can_be_put_right(
    fields: dict[str, Any], admin_client: Client
) -> None:
    """And nothing else of an order that is shipped: the e-mail goes to that address, and says who corrected it."""
    order = shipped("A-1")
    Email.objects.update(**fields)
    values = {"number": "B-1", "customer_email": "right@example.com", "_save": "Save"}
    assert admin_client.post(reverse(f"{ORDER}_change", args=[order.pk]), values).status_code == 302
    assert Order.objects.values_list("number", "customer_email").get() == ("A-1", "right@example.com")
    assert Email.objects.values_list("state", "recipient").get() == (EmailState.PENDING, "right@example.com")
    said = Resolution.objects.get()
    assert (said.done, said.who, said.why) == (Act.CORRECT, "admin", "The order's address was corrected.")
    entry = Entry.objects.get()
    assert (entry.actor, entry.door, entry.action) == ("admin", "admin", "emails.redirect")


def test_an_address_is_not_put_right_while_operators_change_nothing(admin_client: Client, settings: Settings) -> None:
    """The order is left alone, too: it and its e-mail have one address."""
    order = shipped("A-1")
    settings.WEIR_OPS_READ_ONLY = True
    values = {"number": "A-1", "customer_email": "right@example.com", "_save": "Save"}
    answer = admin_client.post(reverse(f"{ORDER}_change", args=[order.pk]), values, follow=True)
    assert "WEIR_OPS_READ_ONLY is set" in answer.content.decode()
    assert "right@example.com" not in Order.objects.values_list("customer_email", flat=True)


def test_an_order_that_is_shipped_while_its_form_is_saved_stays_shipped(
    admin_client: Client,
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
    in_threads: InThreads,
) -> None:
    """The form was read before; saving it neither takes the shipping back nor changes the address."""
    waiting = order("A-1")

    def save_or_ship(number: int) -> int:
        if number == 0:
            values = {"number": "A-1", "customer_email": "new@example.com", "_save": "Save"}
            return admin_client.post(reverse(f"{ORDER}_change", args=[waiting.pk]), values).status_code
        eventually(lambda: waiters(other_connection), "the form to be saved")
        other_connection.commit()
        return 0

    other_connection.execute("UPDATE weir_orders_order SET shipped_at = now()")
    assert in_threads(2, save_or_ship) == [403, 0]
    saved = Order.objects.get()
    assert saved.shipped_at is not None
    assert saved.customer_email == "customer@example.com"
    assert not LogEntry.objects.exists()


def test_chosen_orders_are_shipped_once(admin_client: Client, messages: list[Message]) -> None:
    """The action ships those that were not shipped before, and no others, and says how many."""
    before, first, second, other = shipped("A-0"), order("A-1"), order("A-2"), order("A-3")
    messages.clear()
    assert "2 orders shipped." in act(admin_client, ORDER, "ship", before.pk, first.pk, second.pk)
    assert "0 orders shipped." in act(admin_client, ORDER, "ship", before.pk)
    assert set(Email.objects.values_list("key", flat=True)) == {str(it.pk) for it in (before, first, second)}
    assert Order.objects.unshipped().get() == other


def test_who_may_only_view_orders_ships_none() -> None:
    """The action needs the permission to change orders."""
    permissions = Permission.objects.filter(
        content_type__app_label__in=("weir_mail", "weir_orders"),
        codename__in=("view_order", "view_email", "resolve_email"),
    )
    user = User.objects.create_user("somebody", is_staff=True)
    user.user_permissions.set(permissions)
    assert permissions.count() == 3
    waiting, client = order("A-1"), Client()
    client.force_login(user)
    assert 'value="ship"' not in page(client, f"{ORDER}_changelist")
    act(client, ORDER, "ship", waiting.pk)
    assert Order.objects.unshipped().exists()
    client.force_login(User.objects.create_superuser("root"))
    assert 'value="ship"' in page(client, f"{ORDER}_changelist")


def test_shipping_very_many_is_done_in_parts(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is asked to ship all of them ends in time, and says that there are more."""
    monkeypatch.setattr(admin, "MOST_SHIPPED", 2)
    ids = [order(f"A-{number}").pk for number in range(3)]
    for said in ("2 orders shipped.", "1 order shipped."):
        assert said in act(admin_client, ORDER, "ship", *ids)
    assert not Order.objects.unshipped().exists()


def test_counting_stops_at_what_anybody_would_leaf_through(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list does not count millions of rows."""
    monkeypatch.setattr(short_paginator, "MOST_COUNTED", 3)
    for number in range(5):
        order(f"A-{number}")
    assert "3 orders" in page(admin_client, f"{ORDER}_changelist")
