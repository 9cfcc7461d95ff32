"""The table of notifications, and that of read marks, by which many of them are read at once."""

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
# Whoever marks a row as read or unread, or gives it to another user, has seen it: no digest tells it any more.
_AFRESH: dict[str, Any] = {"changed_xid": CurrentTransactionId(), "digest_due_at": None, "digest_id": None}
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
    # What the two say together: channels/telling.py.
    digest_due_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="from when a digest tells it if it is unread; empty = none"
    )
    digest_id = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="the e-mail that is to tell it or, without a due time, has"
    )

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
            # users_due.sql and digests_have_work.sql: what no digest has yet
            models.Index(
                fields=["digest_due_at"],
                include=["user_id"],
                condition=_UNREAD & Q(digest_due_at__isnull=False, digest_id__isnull=True),
                name="weir_notification_digest_due",
            ),
            # drafted.sql, tell.sql and release.sql: what an e-mail tells
            models.Index(fields=["digest_id"], condition=Q(digest_id__isnull=False), name="weir_notification_digest"),
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
        self.digest_id = None
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
            row.update(changed_at=Now(), **(_AFRESH if any(difference.values()) else {}))
            changes.record(difference, using=save.using)
        return updated

    def _to_replace(self, save: RowSave, before: Locked) -> set[str]:
        """Return the fields to write to an existing row, without those of which the instance may have an old value.

        If the row gets another owner, and a read mark of the old owner covers it, it stays read, as with `update`.
        """
        fields = {*(save.update_fields or (field.attname for field in Notification._meta.concrete_fields))}
        if self.user_id not in before.numbers and not fields.isdisjoint({"user", "user_id"}):
            row: Any = Notification.objects.using(save.using).filter(pk=self.pk).with_covered_at().get()
            if row.read_at is None and row.covered_at:
                self.read_at = row.covered_at if self.read_at is None else self.read_at
                fields.add("read_at")
        return fields - _AFRESH.keys()

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
