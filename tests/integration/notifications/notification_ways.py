"""Every way of the ORM that changes notifications, with what it does to the numbers: a table for tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db.models import Case, F, Max, Value, When
from django.db.models.functions import Now

from weir.notifications import inbox, querysets
from weir.notifications.models import Notification

THEN = datetime(2020, 2, 2, tzinfo=UTC)
objects = Notification.objects
BEFORE = {1: 3, 2: 2, 3: 0}

Rows = SimpleNamespace


@dataclass(frozen=True, slots=True)
class Way:
    """One way to change rows, and the numbers that it changes."""

    name: str
    go: Callable[[Rows], Any]
    numbers: dict[int, int] = field(default_factory=dict)  # those that have changed


def new(user_id: Any = 1, **values: Any) -> Notification:
    return Notification(user_id=user_id, kind="news", title=values.pop("title", "new"), **values)


def changed(row: Notification, **values: Any) -> Notification:
    for name, value in values.items():
        setattr(row, name, value)
    return row


def save(row: Notification, *fields: str, **values: Any) -> bool:
    changed(row, **values).save(update_fields=fields or None)
    return True


def mine() -> querysets.NotificationQuerySet[Notification]:
    return objects.filter(user_id=1)


def bulk_update(rows: list[Notification], *fields: str, **values: Any) -> None:
    objects.bulk_update([changed(row, **values) for row in rows], fields)


def copied(row: Notification) -> Notification:
    row.pk, row._state.adding = None, True
    return row


def loaddata(*rows: Notification) -> None:
    fixture = [
        {
            "model": "weir_notifications.notification",
            "pk": row.pk,
            "fields": {"user_id": row.user_id, "kind": "news", "read_at": row.read_at and str(row.read_at)},
        }
        for row in rows
    ]
    with NamedTemporaryFile(suffix=".json", mode="w") as file:
        json.dump(fixture, file)
        file.flush()
        call_command("loaddata", file.name, verbosity=0)


def run(call: Callable[..., Any], *arguments: Any, **values: Any) -> Any:
    return async_to_sync(_awaited)(call, *arguments, **values)


async def _awaited(call: Callable[..., Any], *arguments: Any, **values: Any) -> Any:
    return await call(*arguments, **values)


# User 1 has a, b, c (unread) and d (read); user 2 has e, f (unread) and g (read); user 3 has none.
INSERTS = [
    Way("create", lambda _: objects.create(user_id=1, kind="news", title="new"), {1: 4}),
    Way("create, read", lambda _: objects.create(user_id=1, kind="news", title="new", read_at=THEN)),
    Way("create, read by an expression", lambda _: objects.create(user_id=1, kind="news", title="new", read_at=Now())),
    Way("create, unread by an expression", lambda _: objects.create(user_id=1, kind="n", read_at=Value(None)), {1: 4}),
    Way("create, user by an expression", lambda _: objects.create(user_id=Value(1) + 1, kind="news"), {2: 3}),
    Way("create, user as text", lambda _: objects.create(user_id="1", kind="news"), {1: 4}),
    Way("create with an id", lambda _: objects.create(pk=10**9, user_id=3, kind="news", title="new"), {3: 1}),
    Way("save, new", lambda _: new().save(), {1: 4}),
    Way("save, new with an id", lambda _: new(pk=10**9).save(), {1: 4}),
    Way("save, new by force", lambda _: new(pk=10**9).save(force_insert=True), {1: 4}),
    Way("save, a copy", lambda rows: copied(rows.a).save(), {1: 4}),
    Way("bulk_create, copies", lambda rows: objects.bulk_create([copied(rows.a), copied(rows.e)]), {1: 4, 2: 3}),
    Way("get_or_create, new", lambda _: objects.get_or_create(user_id=3, kind="news"), {3: 1}),
    Way("get_or_create, there", lambda rows: objects.get_or_create(pk=rows.a.pk, defaults={"user_id": 3})),
    Way("update_or_create, new", lambda _: objects.update_or_create(user_id=3, kind="news"), {3: 1}),
    Way(
        "update_or_create, there",
        lambda rows: objects.update_or_create(pk=rows.a.pk, defaults={"read_at": THEN}),
        {1: 2},
    ),
    Way("bulk_create", lambda _: objects.bulk_create([new(), new(2), new(3), new(3)]), {1: 4, 2: 3, 3: 2}),
    Way("bulk_create, some read", lambda _: objects.bulk_create([new(read_at=THEN), new(2)]), {2: 3}),
    Way("bulk_create, expressions", lambda _: objects.bulk_create([new(read_at=Now()), new(Value(2))]), {2: 3}),
    Way("bulk_create, generated", lambda _: objects.bulk_create((new() for _ in range(5)), 2), {1: 8}),
    Way("bulk_create, with ids", lambda _: objects.bulk_create([new(pk=10**9), new(pk=10**9 + 1)]), {1: 5}),
    Way("bulk_create, none", lambda _: objects.bulk_create([])),
    Way("loaddata", lambda rows: loaddata(new(), new(3, pk=10**9), changed(rows.a, read_at=THEN)), {1: 3, 3: 1}),
    Way("inbox.notify", lambda _: inbox.notify(1, "news", "new"), {1: 4}),
    Way("inbox.notify_many", lambda _: inbox.notify_many([1, 3, 3], "news", "new"), {1: 4, 3: 1}),
]
SAVES = [
    Way("save, now read", lambda rows: save(rows.a, read_at=THEN), {1: 2}),
    Way("save, now unread", lambda rows: save(rows.d, read_at=None), {1: 4}),
    Way("save, read by an expression", lambda rows: save(rows.a, read_at=Now()), {1: 2}),
    Way("save, another user", lambda rows: save(rows.a, user_id=3), {1: 2, 3: 1}),
    Way("save, another user, read", lambda rows: save(rows.d, user_id=3)),
    Way("save, another user by an expression", lambda rows: save(rows.a, user_id=F("user_id") + 1), {1: 2, 2: 3}),
    Way("save, both", lambda rows: save(rows.a, user_id=2, read_at=THEN), {1: 2}),
    Way("save, neither", lambda rows: save(rows.a, title="other")),
    Way("save read_at", lambda rows: save(rows.a, "read_at", read_at=THEN), {1: 2}),
    Way("save user_id", lambda rows: save(rows.a, "user_id", user_id=2), {1: 2, 2: 3}),
    Way("save read_at of two set", lambda rows: save(rows.a, "read_at", user_id=2, read_at=THEN), {1: 2}),
    Way("save title of two set", lambda rows: save(rows.a, "title", title="other", read_at=THEN)),
    Way("save by force", lambda rows: changed(rows.a, read_at=THEN).save(force_update=True), {1: 2}),
    Way("save, title loaded", lambda rows: save(objects.only("title").get(pk=rows.a.pk), title="other")),
    Way("save, read_at not loaded", lambda rows: save(objects.defer("read_at").get(pk=rows.a.pk), user_id=3),
        {1: 2, 3: 1}),
    Way("save twice", lambda rows: [save(rows.a, read_at=THEN), save(rows.a)], {1: 2}),
]  # fmt: skip
UPDATES = [
    Way("bulk_update read_at", lambda rows: bulk_update([rows.a, rows.e], "read_at", read_at=THEN), {1: 2, 2: 1}),
    Way("bulk_update user_id", lambda rows: bulk_update([rows.a, rows.d, rows.e], "user_id", user_id=3),
        {1: 2, 2: 1, 3: 2}),
    Way("bulk_update both", lambda rows: bulk_update([rows.d, rows.e], "user_id", "read_at", user_id=3, read_at=None),
        {2: 1, 3: 2}),
    Way("bulk_update title", lambda rows: bulk_update([rows.a], "title", title="other", read_at=THEN)),
    Way("update read_at", lambda _: objects.update(read_at=THEN), {1: 0, 2: 0}),
    Way("update to unread", lambda _: objects.update(read_at=None), {1: 4, 2: 3}),
    Way("update user_id", lambda _: mine().update(user_id=3), {1: 0, 3: 3}),
    Way("update both", lambda _: mine().update(user_id=3, read_at=None), {1: 0, 3: 4}),
    Way("update neither", lambda _: mine().update(title="other")),
    Way("update with F", lambda _: objects.update(user_id=F("user_id") + 1), {1: 0, 2: 3, 3: 2}),
    Way("update with Case", lambda _: objects.update(read_at=Case(When(user_id=1, then=F("read_at")), default=Now())),
        {2: 0}),
    Way("update, filtered", lambda rows: objects.filter(pk__in=[rows.a.pk, rows.g.pk]).update(read_at=THEN), {1: 2}),
    Way("update what it filters by", lambda _: objects.unread().update(read_at=THEN), {1: 0, 2: 0}),
    Way("update, excluded", lambda _: objects.exclude(user_id=1).update(read_at=THEN), {2: 0}),
    Way("update, ordered", lambda _: mine().order_by("-created_at", "title").update(read_at=THEN), {1: 0}),
    Way("update, annotated", lambda _: mine().annotate(owner=F("user_id") + 2).update(user_id=F("owner")),
        {1: 0, 3: 3}),
    Way("update, filtered by an annotation",
        lambda _: objects.annotate(owner=F("user_id") * 2).filter(owner=4).update(read_at=THEN), {2: 0}),
    Way("update, distinct", lambda _: objects.distinct().update(read_at=THEN), {1: 0, 2: 0}),
    Way("update, by a subquery",
        lambda _: objects.filter(pk__in=objects.values("user_id").annotate(x=Max("pk")).values("x")).update(
            read_at=None), {1: 4, 2: 3}),
    Way("update, skipping what is locked",
        lambda _: mine().select_for_update(skip_locked=True).update(read_at=THEN), {1: 0}),
    Way("update, none", lambda _: objects.none().update(read_at=THEN)),
    Way("update one", lambda rows: objects.filter(pk=rows.a.pk).update(read_at=THEN), {1: 2}),
    Way("inbox.mark_read", lambda rows: inbox.mark_read(1, [rows.a.pk, rows.d.pk, rows.e.pk]), {1: 2}),
    Way("inbox.mark_all_read", lambda _: inbox.mark_all_read(1), {1: 0}),
    Way("inbox.mark_unread", lambda rows: inbox.mark_unread(1, [rows.a.pk, rows.d.pk, rows.g.pk]), {1: 4}),
]  # fmt: skip
DELETES = [
    Way("delete", lambda rows: rows.a.delete(), {1: 2}),
    Way("delete, read", lambda rows: rows.d.delete()),
    Way("delete all", lambda _: objects.all().delete(), {1: 0, 2: 0}),
    Way("delete, filtered", lambda _: mine().delete(), {1: 0}),
    Way("delete, ordered", lambda _: mine().order_by("title").delete(), {1: 0}),
    Way("delete, annotated", lambda _: objects.annotate(x=F("user_id") + 1).filter(x=2).delete(), {1: 0}),
    Way("delete, distinct", lambda _: mine().distinct().delete(), {1: 0}),
    Way("delete and save again", lambda rows: [rows.a.delete(), rows.a.save()]),
]
ASYNC = [
    Way("acreate", lambda _: run(objects.acreate, user_id=1, kind="news"), {1: 4}),
    Way("asave", lambda rows: run(changed(rows.a, read_at=THEN).asave), {1: 2}),
    Way("adelete", lambda rows: run(rows.a.adelete), {1: 2}),
    Way("adelete of a queryset", lambda _: run(mine().adelete), {1: 0}),
    Way("aupdate", lambda _: run(mine().aupdate, read_at=THEN), {1: 0}),
    Way("abulk_create", lambda _: run(objects.abulk_create, [new(), new(3)]), {1: 4, 3: 1}),
    Way("abulk_update", lambda rows: run(objects.abulk_update, [changed(rows.a, user_id=3)], ["user_id"]),
        {1: 2, 3: 1}),
    Way("aget_or_create", lambda _: run(objects.aget_or_create, user_id=3, kind="news"), {3: 1}),
    Way("aupdate_or_create", lambda rows: run(objects.aupdate_or_create, pk=rows.a.pk, defaults={"read_at": THEN}),
        {1: 2}),
]  # fmt: skip
WAYS = [*INSERTS, *SAVES, *UPDATES, *DELETES, *ASYNC]
