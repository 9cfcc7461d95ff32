"""Notification, the truth; UnreadCount, what was flushed of it; and what flushing and healing remember."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from django.db import models, router, transaction
from django.db.models import F, Q
from django.db.models.base import ModelBase
from django.db.models.functions import Now

from notifications import changes
from notifications.querysets import COUNTED, NotificationQuerySet, is_computed


class Notification(models.Model):
    """Something that a user is told. Unread until `read_at` is set.

    Whatever way of the ORM changes unread rows, the user's number changes with them when the transaction commits:
    `save`, `delete`, `create`, `bulk_create`, `bulk_update`, and `update` and `delete` of a queryset. What raw SQL
    changes is found by `heal`.
    """

    # No foreign key: users may live elsewhere, and bulk writes pay for no check.
    user_id = models.BigIntegerField()
    kind = models.CharField(max_length=100, help_text="what it is about, for code, such as order.shipped")
    title = models.TextField()
    body = models.TextField(blank=True)
    url = models.TextField(blank=True, help_text="where a click leads")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    read_at = models.DateTimeField(null=True, blank=True, help_text="empty = unread")
    changed_at = models.DateTimeField(
        db_default=Now(), editable=False, help_text="when it last became unread or read, or got another owner"
    )

    objects: ClassVar[NotificationQuerySet] = NotificationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        base_manager_name = "objects"
        indexes: ClassVar = [
            # inbox.page
            models.Index(F("user_id"), F("id").desc(), name="notification_inbox"),
            # inbox.page(unread_only=True); counting what is unread, from the index alone
            models.Index(F("user_id"), F("id").desc(), condition=Q(read_at__isnull=True), name="notification_unread"),
            # heal: whose notifications changed lately
            models.Index(fields=["changed_at"], include=["user_id"], name="notification_changed"),
            # purge_notifications
            models.Index(fields=["read_at"], condition=Q(read_at__isnull=False), name="notification_read"),
        ]

    def __str__(self) -> str:
        return self.title

    def _save_table(  # noqa: PLR0917  Django's signature
        self,
        raw: bool = False,
        cls: type[models.Model] | None = None,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> bool:
        """Write the row, and count what that changes.

        All that saves ends here, `loaddata` too, which passes `save` and `save_base` by. What a signal's receiver
        does to the row comes before or after, and is counted by itself.
        """
        using = using or router.db_for_write(type(self), instance=self)
        save: Callable[[], bool] = partial(
            super()._save_table,  # type: ignore[misc]  # the stubs lack it
            raw,
            cls,
            force_insert,
            force_update,
            using,
            update_fields,
        )
        if cls is not Notification or (update_fields is not None and COUNTED.isdisjoint(update_fields)):
            return save()
        if (force_insert or self.pk is None) and not is_computed(self):
            self.changed_at = Now()  # not that of the row it may be a copy of
            since = time.monotonic()
            save()
            changes.record({self.user_id: int(self.read_at is None)}, using=using, since=since)
            return False
        rows = Notification.objects.using(using)
        with transaction.atomic(using=using, savepoint=False):
            before = rows.filter(pk=self.pk).lock().numbers
            updated = save()
            row = rows.filter(pk=self.pk)
            row.update(changed_at=Now())
            difference = row.numbers()
            difference.subtract(before)
            changes.record(difference, using=using)
        return updated

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """Delete it, and count that."""
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            before = Notification.objects.using(using).filter(pk=self.pk).lock().numbers
            deleted = super().delete(using, keep_parents)
            changes.record({user_id: -unread for user_id, unread in before.items()}, using=using)
        return deleted


class UnreadCount(models.Model):
    """How many notifications of a user are unread, by what was flushed; Redis holds what came after `epoch`.

    The number to show is `notifications.inbox.unread_count`, which adds that up. It may be below 0 for a moment: a
    notification can be counted as read a flush before it is counted as new. The table has fillfactor 70 and no index
    on what a flush changes, so that its updates stay HOT.
    """

    user_id = models.BigIntegerField(primary_key=True)
    unread_count = models.BigIntegerField()
    epoch = models.BigIntegerField(help_text="deltas of this epoch, and of all before it, are in unread_count")

    def __str__(self) -> str:
        return f"{self.unread_count} unread of user {self.user_id}"


class FlushedEpoch(models.Model):
    """One epoch whose deltas are in UnreadCount: written in the same transaction, so it is never applied twice.

    With no users it is heal's, which refuses epochs of a Redis that has lost its memory since.
    """

    epoch = models.BigIntegerField(primary_key=True)
    users = models.PositiveIntegerField(help_text="whose numbers changed")
    flushed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "flushed epochs"

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


class Doubt(models.Model):
    """A user whose number is not trusted until heal has looked: a delta may have got lost, or come too late.

    Meanwhile readers count this user's rows.
    """

    user_id = models.BigIntegerField(primary_key=True)
    noted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"doubt about user {self.user_id}"


class Healing(models.Model):
    """The one row that says how far heal has come, and which Redis it trusts."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    incarnation = models.CharField(max_length=64, blank=True, help_text="of the Redis that heal looks at")
    server_run = models.CharField(max_length=64, blank=True, help_text="its run_id: another one after each start")
    trusted = models.BooleanField(default=False, help_text="its deltas are complete; readers count rows where not")
    changes_until = models.DateTimeField(help_text="changes of notifications up to here have been looked at")
    scrubbed_until = models.BigIntegerField(help_text="users up to this one have been looked at in this round")
    round_began_at = models.DateTimeField(help_text="when the current round over all users began")
    round_took = models.DurationField(null=True, help_text="the last whole round")
    lease_until = models.DateTimeField(help_text="nobody else heals before")

    class Meta:
        verbose_name_plural = "healing"
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="healing_is_one_row")]

    def __str__(self) -> str:
        return "healing"
