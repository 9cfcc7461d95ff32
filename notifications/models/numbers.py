"""The tables of unread numbers, and of what flush and reconciliation remember."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from weir.notifications import user_keys
from weir.postgres.transactions import TransactionIdField


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
