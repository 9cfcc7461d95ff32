"""The operators' admin of notifications: edits there are counted, and the counters' own tables cannot be edited."""

from typing import Any

import pytest
import redis
from django.test import Client
from django.urls import reverse

from tests.integration.admin_pages import act, page
from tests.integration.notifications.unread import assert_exact
from weir.notifications import flush, inbox
from weir.notifications.models import Doubt, FlushedEpoch, Notification, Reconciliation, UnreadCount
from weir.postgres import admin as table_admin

pytestmark = pytest.mark.usefixtures("valkey")

NOTIFICATION = "admin:weir_notifications_notification"


@pytest.fixture
def told(valkey: redis.Redis) -> Notification:  # noqa: ARG001  first of all, it empties Redis
    """Make one unread notification of user 1 and one of user 2; returns the first."""
    first = inbox.notify(1, "order.shipped", "Your order is on its way", body="Thank you.", url="/orders/1")
    inbox.notify(2, "news", "Hello")
    return first


def post(client: Client, view: str, *arguments: object, **values: Any) -> None:
    """Send a form that must be accepted."""
    values = {"_save": "Save", **values}
    assert client.post(reverse(f"{NOTIFICATION}_{view}", args=arguments), values).status_code == 302


def form_of(row: Notification, **values: Any) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in ("user_id", "kind", "title", "body", "url")}
    return {**shown, "read_at_0": "", "read_at_1": "", **values}


def test_notifications_are_listed_found_by_user_and_filtered(admin_client: Client, told: Notification) -> None:
    """The list shows what users were told; a user's id and a filter narrow it."""
    inbox.notify(1, "news", "seen")
    inbox.mark_read(1, [told.pk])
    shown = page(admin_client, f"{NOTIFICATION}_changelist")
    assert all(text in shown for text in ("Your order is on its way", "Hello", "seen", "order.shipped"))
    assert "Hello" not in page(admin_client, f"{NOTIFICATION}_changelist", q="1")
    unread = page(admin_client, f"{NOTIFICATION}_changelist", q="1", read_at__isempty="1")
    assert "seen" in unread
    assert "Your order" not in unread


def test_what_is_added_is_counted(admin_client: Client, told: Notification) -> None:
    """The form begins empty, and the user has one more."""
    assert "DatabaseDefault" not in page(admin_client, f"{NOTIFICATION}_add")
    post(admin_client, "add", **form_of(told, user_id=3))
    assert inbox.unread_counts([1, 2, 3]) == {1: 1, 2: 1, 3: 1}
    assert_exact()


def test_what_is_changed_is_counted(admin_client: Client, told: Notification) -> None:
    """Read, unread again, given to another user, and a new text: each by what it does to the number."""
    assert "Your order" in page(admin_client, f"{NOTIFICATION}_change", told.pk)
    steps: list[tuple[dict[str, Any], dict[int, int]]] = [
        ({"read_at_0": "2026-01-01", "read_at_1": "12:00:00"}, {1: 0, 2: 1}),
        ({}, {1: 1, 2: 1}),
        ({"user_id": 2}, {1: 0, 2: 2}),
        ({"user_id": 2, "title": "other"}, {1: 0, 2: 2}),
    ]
    for values, numbers in steps:
        post(admin_client, "change", told.pk, **form_of(told, **values))
        assert inbox.unread_counts([1, 2]) == numbers
    assert_exact()


def test_what_is_deleted_is_counted(admin_client: Client, told: Notification) -> None:
    """One by its page, and several that are chosen in the list."""
    post(admin_client, "delete", told.pk, post="yes")
    assert inbox.unread_counts([1, 2]) == {1: 0, 2: 1}
    inbox.notify_many([1, 2, 3], "news", "Hello")
    chosen = list(Notification.objects.filter(user_id__lt=3).values_list("pk", flat=True))
    url = reverse(f"{NOTIFICATION}_changelist")
    admin_client.post(url, {"action": "delete_selected", "_selected_action": chosen, "post": "yes"})
    assert inbox.unread_counts([1, 2, 3]) == {1: 0, 2: 0, 3: 1}
    assert_exact()


def test_deleting_many_asks_first(admin_client: Client, told: Notification) -> None:
    """The action leads to a page that names what would go, and nothing is gone yet."""
    assert "Your order is on its way" in act(admin_client, NOTIFICATION, "delete_selected", told.pk)
    assert inbox.unread_count(1) == 1


@pytest.mark.usefixtures("told")
def test_a_page_deletes_no_more_than_it_can_list(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django loads and lists all; if there are very many, the command is named instead."""
    monkeypatch.setattr(table_admin, "MOST_DELETED", 5)
    inbox.notify_many(range(4), "news", "Hello")
    url = reverse(f"{NOTIFICATION}_changelist")
    chosen = {"action": "delete_selected", "select_across": "1", "index": "0", "_selected_action": ["1"], "post": "yes"}
    there = Notification.objects.count()
    assert there > 5
    answer = admin_client.post(url, chosen, follow=True)
    assert (
        "At most 5 are deleted here immediately; delete more by manage.py notifications delete."
        in answer.content.decode()
    )
    assert Notification.objects.count() == there
    monkeypatch.setattr(table_admin, "MOST_DELETED", there)
    admin_client.post(url, chosen)
    assert not Notification.objects.exists()
    assert_exact()


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    "model", [UnreadCount, FlushedEpoch, Doubt, Reconciliation], ids=lambda model: model._meta.model_name
)
def test_what_flushes_and_passes_write_is_shown_and_never_edited(admin_client: Client, model: Any) -> None:
    """A list and a page without a form; a form that is posted all the same is refused."""
    flush.flush_sealed()
    Doubt.objects.create(user_id=1, noted_at=Reconciliation.objects.get().scan_began_at)
    name, row = f"admin:weir_notifications_{model._meta.model_name}", model.objects.first()
    assert str(row.pk) in page(admin_client, f"{name}_changelist")
    assert 'name="_save"' not in page(admin_client, f"{name}_change", row.pk)
    for view in ("change", "delete"):
        assert admin_client.post(reverse(f"{name}_{view}", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse(f"{name}_add")).status_code == 403
    assert 'value="delete_selected"' not in page(admin_client, f"{name}_changelist")
