"""`manage.py notifications`: the meant rows are deleted page by page, and unread numbers are those of the rows."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import F
from django.db.models.functions import Now

from tests.integration.conftest import InThreads
from tests.integration.notifications.unread import MARKS, assert_exact
from weir.notifications import flush, inbox
from weir.notifications.models import Notification
from weir.notifications.removal import bulk
from weir.workers.audit.models import Entry

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=["weir.notifications", "weir.workers.audit"]),
    *MARKS[1:],
]


def told(*arguments: str) -> str:
    out = StringIO()
    call_command("notifications", *arguments, stdout=out)
    return out.getvalue().strip()


@pytest.fixture(params=[2, bulk.PAGE], ids=["pages", "one page"])
def seven(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, valkey: object) -> list[Notification]:  # noqa: ARG001  first of all, it empties Redis
    """Return notifications of two kinds and three users, some read, some covered by a mark, the first three old."""
    monkeypatch.setattr(bulk, "PAGE", request.param)
    for kind in ("news", "order", "news"):
        inbox.notify_many([1, 2], kind, "Hello")
    inbox.notify(3, "news", "Hello")
    rows = list(Notification.objects.order_by("pk"))
    inbox.mark_read(1, [rows[0].pk])
    flush.flush_sealed()
    inbox.mark_all_read(2)
    Notification.objects.filter(pk__lte=rows[2].pk).update(created_at=Now() - timedelta(days=40))
    return rows


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["--kind", "news"], [2, 3]),
        (["--kind", "news", "--kind", "order"], []),
        (["--user", "1"], [1, 3, 5, 6]),
        (["--user", "2", "--user", "3", "--kind", "news"], [0, 2, 3, 4]),
        (["--older-than", "30d"], [3, 4, 5, 6]),
        (["--older-than", "30d", "--kind", "news", "--user", "1"], [1, 2, 3, 4, 5, 6]),
        (["--kind", "none"], [0, 1, 2, 3, 4, 5, 6]),
        (["--all"], []),
    ],
)
def test_what_is_meant_goes_and_is_counted(seven: list[Notification], arguments: list[str], left: list[int]) -> None:
    """As many as a dry run says; the audit trail has an entry."""
    number = len(seven) - len(left)
    assert json.loads(told("delete", *arguments, "--dry-run", "--json")) == {"would_delete": number}
    assert Notification.objects.count() == len(seven)
    if number:
        with pytest.raises(CommandError, match="nothing was deleted"):
            told("delete", *arguments, "--expect", str(number - 1))
    assert told("delete", *arguments, "--expect", str(number), "--why", "a mistake").startswith(
        f"{number} notification"
    )
    assert list(Notification.objects.order_by("pk")) == [seven[place] for place in left]
    assert_exact(1, 2, 3)
    assert [(entry.action, entry.why, entry.after) for entry in Entry.objects.all()] == (
        [("unread.delete_notifications", "a mistake", {"deleted": number})] if number else []
    )


@pytest.mark.parametrize("users", [(), (1, 2, 3)])
def test_what_comes_in_meanwhile_stays(seven: list[Notification], users: tuple[int, ...]) -> None:
    """It ends, however fast others write."""
    pages = 0
    for _deleted in bulk.delete(bulk.Meant(kinds=["news"], users=users)):
        inbox.notify(1, "news", "Hello again")
        pages += 1
        assert pages <= len(seven)
    assert Notification.objects.filter(kind="news").count() == pages
    assert_exact(1, 2, 3)


def test_what_went_before_an_error_has_its_entry(seven: list[Notification], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is committed, whatever becomes of the next one."""

    def pages(_meant: bulk.Meant) -> Iterator[Any]:
        yield Notification.objects.filter(pk=seven[0].pk)
        raise OperationalError("away")

    monkeypatch.setattr(bulk.Meant, "pages", pages)
    with pytest.raises(OperationalError):
        told("delete", "--all")
    assert Entry.objects.get().after == {"deleted": 1}
    assert Notification.objects.count() == len(seven) - 1


@pytest.mark.usefixtures("seven")
@pytest.mark.parametrize("arguments", [[], ["--all", "--kind", "news"], ["--user", "seven"], ["--older-than", "0"]])
def test_what_is_not_said_clearly_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        told("delete", *arguments)
    assert Notification.objects.count() == 7


def test_list_shows_the_newest(seven: list[Notification]) -> None:
    """Those that delete would remove, without their texts."""
    found: list[dict[str, Any]] = json.loads(told("list", "--kind", "news", "--limit", "3", "--json"))
    assert [row["id"] for row in found] == [seven[place].pk for place in (6, 5, 4)]
    assert "order" in told()
    assert "Hello" not in told()
    assert told("list", "--kind", "none") == "No notification meets that."


def test_numbers_are_right_while_others_write(in_threads: InThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    """People are told, read, mark all and un-mark; others delete the same rows: afterwards numbers are COUNT(*)."""
    monkeypatch.setattr(bulk, "PAGE", 50)
    for _ in range(40):
        inbox.notify_many(range(1, 21), "news", "Hello")
    ends = threading.Event()

    def work(worker: int) -> None:
        if worker < 2:
            try:
                told("delete", "--kind", "news")
            finally:
                ends.set()
            return
        turn = 0
        while turn < 20 or not ends.is_set():
            turn += 1
            user = 1 + (turn * 7 + worker) % 20
            inbox.notify_many([user, user % 20 + 1], "kept", "Hello")
            some = list(Notification.objects.filter(user_id=user).values_list("pk", flat=True)[:5])
            inbox.mark_read(user, some)
            inbox.mark_unread(user, some[:2])
            if turn % 5 == 0:
                inbox.mark_all_read(user)
            Notification.objects.filter(pk__in=some[3:]).update(user_id=F("user_id") % 20 + 1)

    in_threads(5, work)
    assert not Notification.objects.filter(kind="news").exists()
    assert Notification.objects.filter(kind="kept").exists()
    assert_exact()


def test_a_table_that_forbids_it_is_named(valkey: object) -> None:  # noqa: ARG001  first of all, it empties Redis
    """A project's own table, which refers to a notification."""
    row = inbox.notify(7, "news", "Hello")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (notification bigint REFERENCES weir_notifications_notification)")
        try:
            cursor.execute("INSERT INTO kept VALUES (%s)", [row.pk])
            with pytest.raises(CommandError, match=r'^Another table refers to some of them, and forbids it .*"kept"'):
                told("delete", "--user", "7")
        finally:
            cursor.execute("DROP TABLE kept")
    assert_exact()


def test_a_user_is_forgotten(seven: list[Notification]) -> None:
    """With an entry in the audit trail, which wants a reason; one who is not known is forgotten as well."""
    del seven
    with pytest.raises(CommandError, match="--why"):
        told("forget", "1")
    assert told("forget", "1", "--why", "Asked.").startswith("The user is forgotten.")
    assert set(Notification.objects.values_list("user_id", flat=True)) == {2, 3}
    assert json.loads(told("forget", "99", "--why", "Asked.", "--json")) == {"user": "99"}
    assert list(Entry.objects.order_by("pk").values_list("action", "target")) == [
        ("users.forget", "user 1"),
        ("users.forget", "user 99"),
    ]
