"""The admin pages of paused kinds, the suppression list, held relays and acts."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.integration.admin_pages import page
from weir.workers.mail import suppression
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import RelayHold
from weir.workers.orders.models import SHIPPED

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

LIST = "admin:weir_mail_suppression"


def test_an_address_is_found_as_people_write_it(admin_client: Client) -> None:
    """It is on the list with its domain in ASCII."""
    operators.suppress("kim@xn--mller-kva.example", "Ada", "She asked")
    assert "She asked" in page(admin_client, f"{LIST}_changelist", q=" Kim@müller.example ")


def test_what_was_done_and_which_relays_are_held_is_only_looked_at(admin_client: Client) -> None:
    """The acts about an address are found by its hash."""
    operators.suppress("kim@example.com", "Ada", "She asked")
    operators.pause(SHIPPED, "Bob", "wrong text")
    RelayHold.objects.create(relay="mx.example:25", reason="It refuses us: 550")
    assert "It refuses us: 550" in page(admin_client, "admin:weir_mail_relayhold_changelist")
    found = page(admin_client, "admin:weir_mail_mailact_changelist", q=suppression.address_hash("kim@example.com"))
    assert "She asked" in found
    assert "wrong text" not in found
    for model in ("mailact", "relayhold", "pausedkind", "suppression"):
        assert admin_client.get(reverse(f"admin:weir_mail_{model}_add")).status_code == 403
