"""Notification, the truth; UnreadCount, what was flushed of it; and what flushing and reconciliation remember."""

import time
from typing import ClassVar

from django.db import models, router, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from notifications import changes
from notifications.django_private import InterceptedModel, RowSave
from notifications.querysets import COUNTED, NotificationQuerySet, is_computed


class Notification(InterceptedModel):
    """A message to one user, shown in the site. Unread until `read_at` is set.

    Whatever way of the ORM changes unread rows, the user's number changes with them when the transaction commits:
    `save`, `delete`, `create`, `bulk_create`, `bulk_update`, and `update` and `delete` of a queryset. Changes by raw
    SQL are not counted; reconciliation finds them.
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

    objects: ClassVar["NotificationQuerySet[Notification]"] = NotificationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        base_manager_name = "objects"
        indexes: ClassVar = [
            # inbox.page
            models.Index(F("user_id"), F("id").desc(), name="notification_inbox"),
            # inbox.page(unread_only=True); counting what is unread, from the index alone
            models.Index(F("user_id"), F("id").desc(), condition=Q(read_at__isnull=True), name="notification_unread"),
            # reconcile/changed.sql: the users whose notifications changed lately
            models.Index(fields=["changed_at"], include=["user_id"], name="notification_changed"),
            # retention/purge.sql
            models.Index(fields=["read_at"], condition=Q(read_at__isnull=False), name="notification_read"),
        ]

    def __str__(self) -> str:
        return self.title

    def save_row(self, save: RowSave) -> bool:
        """Write the row, and count what that changes. What a signal's receiver does to the row is counted by itself."""
        if save.table is not Notification or (
            save.update_fields is not None and COUNTED.isdisjoint(save.update_fields)
        ):
            return save.write()
        if (save.force_insert or self.pk is None) and not is_computed(self):
            return self._insert_row(save)
        return self._replace_row(save)

    def _insert_row(self, save: RowSave) -> bool:
        self.changed_at = Now()  # a copied row must not keep the time of the original
        since = time.monotonic()
        save.write()
        changes.record({self.user_id: int(self.read_at is None)}, using=save.using, since=since)
        return False

    def _replace_row(self, save: RowSave) -> bool:
        """Write a row that may exist, or whose user the database computes: count it before and afterwards."""
        rows = Notification.objects.using(save.using)
        with transaction.atomic(using=save.using, savepoint=False):
            before = rows.filter(pk=self.pk).lock().numbers
            updated = save.write()
            row = rows.filter(pk=self.pk)
            row.update(changed_at=Now())
            difference = row.numbers()
            difference.subtract(before)
            changes.record(difference, using=save.using)
        return updated

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """Delete the row, and count that."""
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            before = Notification.objects.using(using).filter(pk=self.pk).lock().numbers
            deleted = super().delete(using, keep_parents)
            changes.record({user_id: -unread for user_id, unread in before.items()}, using=using)
        return deleted


class UnreadCount(models.Model):
    """How many notifications of a user are unread, by what was flushed; Redis holds what came after `epoch`.

    The number to show is `notifications.inbox.unread_count`, which adds the two. The stored number may be below 0 for
    a moment: a notification can be counted as read a flush before it is counted as new. The table has fillfactor 70
    and no index on what a flush changes, so that its updates stay HOT.
    """

    user_id = models.BigIntegerField(primary_key=True)
    unread_count = models.BigIntegerField()
    epoch = models.BigIntegerField(help_text="deltas of this epoch, and of all before it, are in unread_count")

    def __str__(self) -> str:
        return f"{self.unread_count} unread of user {self.user_id}"


class FlushedEpoch(models.Model):
    """An epoch whose deltas are in UnreadCount: written in the same transaction, so it is never applied twice.

    A row without users was written by a reconciler, to refuse epochs of a Redis that has lost its memory since.
    """

    epoch = models.BigIntegerField(primary_key=True)
    users = models.PositiveIntegerField(help_text="whose numbers changed")
    flushed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "flushed epochs"

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


class Doubt(models.Model):
    """A user whose number is not trusted, as a delta may be lost or late, until reconciliation has looked at it.

    Meanwhile readers count this user's rows.
    """

    user_id = models.BigIntegerField(primary_key=True)
    noted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"doubt about user {self.user_id}"


class Reconciliation(models.Model):
    """The one row that says how far reconciliation has come, and which Redis it trusts."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    incarnation = models.CharField(max_length=64, blank=True, help_text="of the Redis that was last looked at")
    server_run = models.CharField(max_length=64, blank=True, help_text="its run_id: another one after each start")
    trusted = models.BooleanField(default=False, help_text="its deltas are complete; readers count rows where not")
    changes_until = models.DateTimeField(help_text="changes of notifications up to here have been looked at")
    scanned_until = models.BigIntegerField(help_text="the current full scan has compared users up to this one")
    scan_began_at = models.DateTimeField(help_text="when the current full scan of all users began")
    scan_took = models.DurationField(null=True, help_text="the last whole full scan")
    lease_until = models.DateTimeField(help_text="no other pass begins before")

    class Meta:
        verbose_name_plural = "reconciliation"
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="reconciliation_is_one_row")]

    def __str__(self) -> str:
        return "reconciliation"
