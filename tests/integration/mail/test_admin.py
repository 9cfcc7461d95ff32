"""The admin pages of e-mails: what is listed and shown, and that nothing is changed there."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from tests.integration.admin_pages import page
from weir.postgres import short_paginator
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

EMAIL = "admin:weir_mail_email"
EMAILS = f"{EMAIL}_changelist"
REPLY = "TimeoutError: timed out <b>"


def order(number: str, address: str = "customer@example.com") -> Order:
    created: Order = Order.objects.create(number=number, customer_email=address)
    return created


def shipped(number: str, **fields: Any) -> Email:
    """Ship an order; returns its e-mail, with these fields."""
    placed = order(number)
    shipping.ship(placed.pk)
    Email.objects.filter(pk=placed.shipped_email.pk).update(**fields)
    return placed.shipped_email


def unknown(number: str) -> Email:
    """Return an e-mail whose outcome is not known."""
    known = {"phase": Phase.AFTER_DOT, "last_reply": REPLY, "claimed_by": "mail-1:77"}
    return shipped(number, state=EmailState.UNKNOWN, claim_token=uuid4(), sending_since=Now(), **known)


def failed(number: str) -> Email:
    return shipped(number, state=EmailState.FAILED, phase=Phase.NOT_BEGUN, last_reply="550 no such recipient")


def test_emails_are_listed_newest_first_and_filtered_by_state(admin_client: Client) -> None:
    """The list shows the recipient and the mail server's last reply of each; the filter leaves one state."""
    unknown("A-1")
    failed("A-2")
    shown = page(admin_client, EMAILS)
    assert shown.index("A-2") < shown.index("A-1")
    assert all(text in shown for text in ("customer@example.com", "TimeoutError: timed out &lt;b&gt;", "mail-1:77"))
    assert "A-2" not in page(admin_client, EMAILS, state__exact="unknown")
    assert "A-1" not in page(admin_client, EMAILS, q="A-2")


def test_an_emails_page_shows_it_with_its_resolutions_and_has_no_form(admin_client: Client) -> None:
    """All that is known of it, and all that was said about it; nothing there can be saved, added or deleted."""
    email = unknown("A-1")
    resolving.resolve(email.pk, Act.RESEND, who="Ada", why="The mail server lost its queue")
    Email.objects.update(last_reply="451 later")
    shown = page(admin_client, f"{EMAIL}_change", email.pk)
    assert all(
        text in shown
        for text in ("&lt;order.shipped-", "451 later", "Ada", "The mail server lost its queue", "timed out")
    )
    assert 'name="_save"' not in shown
    assert 'name="resolutions-0-why"' not in shown
    for view in ("change", "delete"):
        assert admin_client.post(reverse(f"{EMAIL}_{view}", args=[email.pk]), {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse(f"{EMAIL}_add")).status_code == 403
    assert 'value="delete_selected"' not in page(admin_client, EMAILS)


@pytest.mark.parametrize("permission", ["change_email", "resolve_email"])
def test_what_is_personal_is_seen_only_by_who_may_view_it(permission: str, client: Client) -> None:
    """Any other permission for e-mails opens no page of them: the context may hold a link that signs in."""
    email = unknown("A-1")
    user = User.objects.create_user("somebody", is_staff=True)
    client.force_login(user)
    for name, status in ((permission, 403), ("view_email", 200)):
        user.user_permissions.add(Permission.objects.get(content_type__app_label="weir_mail", codename=name))
        assert client.get(reverse(EMAILS)).status_code == status
        assert client.get(reverse(f"{EMAIL}_change", args=[email.pk])).status_code == status


def test_counting_stops_at_what_anybody_would_leaf_through(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list does not count millions of rows."""
    monkeypatch.setattr(short_paginator, "MOST_COUNTED", 3)
    for number in range(5):
        shipped(f"A-{number}")
    assert "3 e-mails" in page(admin_client, EMAILS)
