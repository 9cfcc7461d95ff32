"""The operators' pages: notifications, which may be edited like any rows, and what the counters remember."""

from django.contrib import admin
from django.http import HttpRequest

from notifications.models import Doubt, FlushedEpoch, Notification, Reconciliation, UnreadCount
from postgres.admin import ReadOnlyAdmin, TableAdmin


@admin.register(Notification)
class NotificationAdmin(TableAdmin[Notification]):
    """Notifications may be added, changed and deleted here; all of it is counted."""

    list_display = ("id", "user_id", "kind", "title", "created_at", "read_at")
    list_filter = (("read_at", admin.EmptyFieldListFilter),)
    search_fields = ("=user_id",)
    search_help_text = "A user's id"
    readonly_fields = ("created_at", "changed_at")
    ordering = ("-id",)

    def get_readonly_fields(self, request: HttpRequest, obj: Notification | None = None) -> list[str] | tuple[str, ...]:
        """Show the times of a row that exists; the database gives them to a new one."""
        return super().get_readonly_fields(request, obj) if obj else ()


# The others are written by flushes and reconciliation. A number set by hand would be drift, and an epoch whose note was
# deleted could be applied twice.


@admin.register(UnreadCount)
class UnreadCountAdmin(ReadOnlyAdmin[UnreadCount]):
    """What was flushed of users' numbers."""

    list_display = ("user_id", "unread_count", "epoch")
    search_fields = ("=user_id",)
    search_help_text = "A user's id"
    ordering = ("user_id",)


@admin.register(FlushedEpoch)
class FlushedEpochAdmin(ReadOnlyAdmin[FlushedEpoch]):
    """The flushes of the last day, and the epochs that reconciliation refused."""

    list_display = ("epoch", "users", "flushed_at")
    ordering = ("-epoch",)


@admin.register(Doubt)
class DoubtAdmin(ReadOnlyAdmin[Doubt]):
    """Users whose rows are counted until reconciliation has looked at them."""

    list_display = ("user_id", "noted_at")
    ordering = ("noted_at",)


@admin.register(Reconciliation)
class ReconciliationAdmin(ReadOnlyAdmin[Reconciliation]):
    """How far reconciliation has come."""

    list_display = ("trusted", "incarnation", "changes_until", "scanned_until", "scan_began_at", "scan_took")
