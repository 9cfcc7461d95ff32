"""Notification is the truth, UnreadCount the flushed number. Flush and reconciliation remember things in the others."""

import time
from typing import Any, ClassVar

from django.db import models, router, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from weir.conf import settings
from weir.notifications import changes, user_keys
from weir.notifications.django_private import InterceptedModel, RowSave
from weir.notifications.querysets import COUNTED, Locked, NotificationQuerySet, is_computed
from weir.postgres.transactions import CurrentTransactionId, SnapshotField, TransactionIdField

MOST_OF_DEDUPE_KEY = 255  # characters
_UNREAD, _EXPIRES = Q(read_at__isnull=True), Q(expires_at__isnull=False)


class Notification(InterceptedModel):
    """A message to one user. It is unread until `read_at` is set, or a read mark covers it.

    However the ORM changes unread rows, the user's number changes with them when the transaction commits: `save`,
    `delete`, `create`, `bulk_create`, `bulk_update`, and `update` and `delete` of a queryset. Changes by raw SQL are
    not counted; reconciliation finds them.
    """

    # Users may live elsewhere. Without a foreign key, bulk writes are faster, too: PostgreSQL does not check the users.
    if settings.WEIR_USER_FOREIGN_KEY:
        user = user_keys.foreign_key()
    else:
        user_id = user_keys.field()
    kind = models.CharField(max_length=100, help_text="what it is about, for code, such as order.shipped")
    title = models.TextField()
    body = models.TextField(blank=True)
    url = models.TextField(blank=True, help_text="where a click leads")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    read_at = models.DateTimeField(null=True, blank=True, help_text="empty = unread")
    changed_at = models.DateTimeField(
        db_default=Now(), editable=False, help_text="when it last became unread or read, or got another owner"
    )
    changed_xid = TransactionIdField(
        db_default=CurrentTransactionId(),
        editable=False,
        help_text="the transaction by which it last became unread or got another owner",
    )
    dedupe_key = models.CharField(  # noqa: DJ001  a row without a key is not in the index
        max_length=MOST_OF_DEDUPE_KEY,
        null=True,
        blank=True,
        help_text="of a user's notifications one has it; empty = none",
    )
    expires_at = models.DateTimeField(null=True, blank=True, help_text="when it is deleted; empty = never by itself")

    objects: ClassVar["NotificationQuerySet[Notification]"] = NotificationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        base_manager_name = "objects"
        indexes: ClassVar = [
            # inbox.page
            models.Index(F("user_id"), F("id").desc(), name="weir_notification_inbox"),
            # inbox.page(unread_only=True); counting unread rows from the index alone
            models.Index(F("user_id"), F("id").desc(), condition=_UNREAD, name="weir_notification_unread"),
            # counting rows that a read mark does not cover (unread_numbers.sql, by_kind.sql, mark_all_read.sql)
            models.Index(
                fields=["user_id", "changed_xid"],
                include=["id"],
                condition=_UNREAD,
                name="weir_notification_unread_since",
            ),
            # changed_users.sql: the notifications that changed lately, in pages that may end at any notification
            models.Index(fields=["changed_at", "id"], include=["user_id"], name="weir_notification_changes"),
            # purge_notifications.sql
            models.Index(fields=["read_at"], condition=Q(read_at__isnull=False), name="weir_notification_read"),
            # expire.sql
            models.Index(fields=["expires_at"], condition=_EXPIRES, name="weir_notification_expires"),
        ]
        constraints: ClassVar = [
            # inbox.notify and notify_once.sql
            models.UniqueConstraint(
                fields=[user_keys.owner(), "dedupe_key"],
                condition=Q(dedupe_key__isnull=False),
                name="weir_notification_dedupe",
            )
        ]

    def __str__(self) -> str:
        return self.title

    def save_row(self, save: RowSave) -> bool:
        """Write the row, and count the change. Changes that receivers of signals make are counted separately."""
        if save.table is not Notification or (
            save.update_fields is not None and COUNTED.isdisjoint(save.update_fields)
        ):
            return save.write()
        if (save.force_insert or self.pk is None) and not is_computed(self):
            return self._insert_row(save)
        return self._replace_row(save)

    def _insert_row(self, save: RowSave) -> bool:
        if self.user_id is not None:  # None is left to PostgreSQL's NOT NULL
            user_keys.clean(self.user_id)  # refuses 7.0, which Django accepts as 7
        self.changed_at, self.changed_xid = Now(), CurrentTransactionId()  # a copied row has the original's values
        since = time.monotonic()
        save.write()
        changes.record({self.user_id: int(self.read_at is None)}, using=save.using, since=since)
        return False

    def _replace_row(self, save: RowSave) -> bool:
        """Write a row that may exist, or whose user or `read_at` the database computes; count it before and after."""
        rows = Notification.objects.using(save.using)
        with transaction.atomic(using=save.using, savepoint=False):
            before = rows.filter(pk=self.pk).lock()
            updated = save.write(update_fields=self._to_replace(save, before)) if before.pks else save.write()
            row = rows.filter(pk=self.pk)
            difference = row.numbers()
            difference.subtract(before.numbers)
            # A row that neither becomes unread nor read stays covered by the read mark that covered it.
            row.update(
                changed_at=Now(), **({"changed_xid": CurrentTransactionId()} if any(difference.values()) else {})
            )
            changes.record(difference, using=save.using)
        return updated

    def _to_replace(self, save: RowSave, before: Locked) -> set[str]:
        """Return the fields to write to an existing row, without `changed_xid`: the instance may have an old value.

        If the row gets another owner, and a read mark of the old owner covers it, it stays read, as with `update`.
        """
        fields = {*(save.update_fields or (field.attname for field in Notification._meta.concrete_fields))}
        if self.user_id not in before.numbers and not fields.isdisjoint({"user", "user_id"}):
            row: Any = Notification.objects.using(save.using).filter(pk=self.pk).with_covered_at().get()
            if row.read_at is None and row.covered_at:
                self.read_at = row.covered_at if self.read_at is None else self.read_at
                fields.add("read_at")
        return fields - {"changed_xid"}

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """Delete the row, and count the change."""
        using = using or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            before = Notification.objects.using(using).filter(pk=self.pk).lock().numbers
            deleted = super().delete(using, keep_parents)
            changes.record({user_id: -unread for user_id, unread in before.items()}, using=using)
        return deleted


class ReadMark(models.Model):
    """Says that all of a user's notifications were read, when they were too many to be changed one by one.

    A mark covers what its transaction saw: rows with ids up to `up_to` that transactions in its snapshot changed last.
    Rows of its own transaction are changed directly instead. Covered rows count as read. Their `read_at` is set later
    (`weir.notifications.inbox.read_marks`), and then the mark is deleted. The mark never covers rows that are inserted
    or marked as unread meanwhile, because later transactions changed these rows.

    `up_to` matters after `pg_restore` into another cluster, which has transaction ids of its own.
    """

    user_id = user_keys.field(primary_key=True)
    up_to = models.BigIntegerField(help_text="the highest id that it covers")
    snapshot = SnapshotField(help_text="covers what was committed then")
    marked_by = TransactionIdField(help_text="covers nothing of this transaction")
    marked_at = models.DateTimeField()

    class Meta:
        # oldest_read_marks.sql
        indexes: ClassVar = [models.Index(fields=["marked_at"], name="weir_read_mark_marked_at")]

    def __str__(self) -> str:
        return f"user {self.user_id} has read all until {self.marked_at}"


class Installation(models.Model):
    """The one row that names this installation. Keys in Redis contain a hash of it and of the database's identity."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    name = models.UUIDField(help_text="random, written by the migration that creates the table")

    def __str__(self) -> str:
        return str(self.name)


class UnreadCount(models.Model):
    """A user's stored number: how many notifications are unread as of `epoch`. Redis holds the later deltas.

    `weir.notifications.inbox.unread_count` adds number and deltas, and returns what is to be shown. The stored number
    may be below 0 for a moment, because one flush may count a notification as read before the next counts it as new.
    The table has fillfactor 70, and no index on columns that a flush changes, so that its updates stay HOT.
    """

    user_id = user_keys.field(primary_key=True)
    unread_count = models.BigIntegerField()
    epoch = models.BigIntegerField(help_text="deltas of this epoch, and of all before it, are in unread_count")

    def __str__(self) -> str:
        return f"{self.unread_count} unread of user {self.user_id}"


class FlushedEpoch(models.Model):
    """An epoch whose deltas are in UnreadCount. One transaction writes both, so no epoch is applied twice.

    A reconciler writes a row with 0 users, to refuse epochs of a Redis that has lost its memory since.
    """

    epoch = models.BigIntegerField(primary_key=True)
    users = models.PositiveIntegerField(help_text="whose numbers changed")
    flushed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "flushed epochs"

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


class Doubt(models.Model):
    """A user whose number may be wrong, because a delta may be lost or late.

    Until reconciliation has looked at the user, readers count the user's rows.
    """

    user_id = user_keys.field(primary_key=True)
    noted_at = models.DateTimeField()

    class Meta:
        # oldest_doubts.sql
        indexes: ClassVar = [models.Index(fields=["noted_at", "user_id"], name="weir_doubt_oldest")]

    def __str__(self) -> str:
        return f"doubt about user {self.user_id}"


class ForgottenUser(models.Model):
    """A user who was deleted, and of whom something may be left.

    Notifications may be left while transactions that write them are open, the number while deltas are on their way.
    """

    user_id = user_keys.field(primary_key=True)
    forgotten_at = models.DateTimeField()
    until_xid = TransactionIdField(
        null=True, help_text="notifications that earlier transactions wrote are deleted; empty = all that there are"
    )

    def __str__(self) -> str:
        return f"forgotten user {self.user_id}"


class Excess(models.Model):
    """A user who has more unread notifications than WEIR_UNREAD_CAP, as a flush found. Kept until the user has fewer.

    Flushes only add rows, and do not wait for other transactions, so a user may have several rows.
    """

    user_id = user_keys.field()

    class Meta:
        verbose_name_plural = "excesses"
        # trim.sql
        indexes: ClassVar = [models.Index(fields=["user_id"], name="weir_excess_user")]

    def __str__(self) -> str:
        return f"excess of user {self.user_id}"


class Repair(models.Model):
    """Numbers that reconciliation found wrong and repaired together. The repairing transaction writes the row."""

    repaired_at = models.DateTimeField()
    users = models.PositiveIntegerField(help_text="whose numbers were wrong")
    drift = models.BigIntegerField(help_text="by how much, in all: the sum without signs")


class Reconciliation(models.Model):
    """The one row that says how far reconciliation has come, and which Redis it trusts."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    incarnation = models.CharField(max_length=64, blank=True, help_text="of the Redis that was last looked at")
    server_run = models.CharField(max_length=64, blank=True, help_text="its run: another one after each start")
    trusted = models.BooleanField(default=False, help_text="its deltas are complete; readers count rows where not")
    changes_until = models.DateTimeField(help_text="changes of notifications up to here have been looked at")
    changes_until_id = models.BigIntegerField(
        db_default=0, help_text="and of the changes of that very moment, notifications up to this one"
    )
    scanned_until = user_keys.field(
        null=True, help_text="the current full scan has compared users up to this one; empty at its beginning"
    )
    scan_began_at = models.DateTimeField(help_text="when the current full scan of all users began")
    scan_took = models.DurationField(null=True, help_text="the last whole full scan")
    scan_ended_at = models.DateTimeField(null=True, help_text="when that came to its end")
    repaired_users = models.BigIntegerField(db_default=0, help_text="repaired since the first pass; only grows")
    lease_until = models.DateTimeField(help_text="no other pass begins before")

    class Meta:
        verbose_name_plural = "reconciliation"
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="weir_reconciliation_is_one_row")]

    def __str__(self) -> str:
        return "reconciliation"
