"""The rows of postponed tasks: what PostgreSQL refuses, and what operators see of them."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from tests.integration.admin_pages import page
from tests.integration.fetches.test_constraints import refused_by
from tests.integration.throttled.one_worker import Broker, arguments, postponed, work
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.publishing import publish_due

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
PUBLISHED = {"published_at": NOW, "lease_until": NOW}
WHOLE = {"site": "site.example", "task": "shop.tasks.update_stock", "signature": "{}", "max_wait": 1.0}
ADMIN = "admin:weir_throttled_postponedtask"


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        ("weir_postponedtask_published_has_lease", {"published_at": NOW}),
        ("weir_postponedtask_published_has_lease", {"lease_until": NOW}),
        ("weir_postponedtask_held_is_published", {"held_by": uuid4()}),
    ],
)
def test_an_impossible_row_is_refused(constraint: str, fields: dict[str, Any]) -> None:
    """What is on its way or held has a lease, so that it is never lost."""
    task = PostponedTask.objects.create(**WHOLE)
    assert refused_by(lambda: PostponedTask.objects.create(**WHOLE, **fields)) == constraint
    assert refused_by(lambda: PostponedTask.objects.filter(pk=task.pk).update(**fields)) == constraint


@pytest.mark.parametrize("fields", [{}, PUBLISHED, {**PUBLISHED, "held_by": uuid4()}])
def test_every_state_has_a_row_that_is_possible(fields: dict[str, Any]) -> None:
    """The constraints together leave room for what really happens."""
    PostponedTask.objects.create(**WHOLE, **fields)


def test_operators_see_what_waits_and_find_it_by_site_and_task(admin_client: Client) -> None:
    """The list shows each task, its site, and how often it was published in vain; a search narrows it."""
    PostponedTask.objects.create(**WHOLE, publications=17)
    PostponedTask.objects.create(**{**WHOLE, "site": "other.example", "task": "shop.tasks.other"})
    shown = page(admin_client, f"{ADMIN}_changelist")
    assert all(text in shown for text in ("shop.tasks.update_stock", "site.example", ">17<", "shop.tasks.other"))
    assert "shop.tasks.other" not in page(admin_client, f"{ADMIN}_changelist", q="site.ex")
    assert "shop.tasks.other" in page(admin_client, f"{ADMIN}_changelist", q="shop.tasks.o")


def test_a_rows_page_shows_it_but_has_no_form(admin_client: Client) -> None:
    """One task can be looked at, but neither added nor changed by hand."""
    task = PostponedTask.objects.create(**WHOLE)
    assert "shop.tasks.update_stock" in page(admin_client, f"{ADMIN}_change", task.pk)
    assert admin_client.post(reverse(f"{ADMIN}_change", args=[task.pk]), {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse(f"{ADMIN}_add")).status_code == 403


def test_a_task_that_is_deleted_in_the_list_is_cancelled(admin_client: Client, broker: Broker) -> None:
    """Its message starts nothing; others do."""
    first, _ = postponed(broker, 1, 2)
    publish_due()
    url = reverse(f"{ADMIN}_changelist")
    chosen = {"action": "delete_selected", "_selected_action": [first], "post": "yes"}
    assert "Successfully deleted 1" in admin_client.post(url, chosen, follow=True).content.decode()
    assert [work(broker.next()) for _ in range(2)] == ["IGNORED", "SUCCESS"]
    assert arguments() == [2]
