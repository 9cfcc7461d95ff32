"""The Django admin of notifications, which staff may edit, and of the tables that only Weir writes."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from weir.notifications import user_keys
from weir.notifications.models import (
    Doubt,
    Excess,
    FlushedEpoch,
    ForgottenUser,
    Notification,
    Preference,
    ReadMark,
    Reconciliation,
    UnreadCount,
)
from weir.postgres.admin import ReadOnlyAdmin, TableAdmin


class FoundByUser(TableAdmin[Any]):
    """Admin of a table that is searched for a user's whole key. A text that is not a key finds nothing."""

    search_fields = ("user_id",)  # makes Django show the search field
    search_help_text = "A user's id"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return super().get_search_results(request, queryset, search_term)
        try:
            return queryset.filter(user_id=user_keys.clean(search_term)), False
        except ValueError:
            return queryset.none(), False


@admin.register(Notification)
class NotificationAdmin(FoundByUser, TableAdmin[Notification]):
    """Staff may add, change and delete notifications here; unread numbers follow."""

    list_display = ("id", "user_id", "kind", "title", "created_at", "read_at")
    list_filter = (("read_at", admin.EmptyFieldListFilter),)
    readonly_fields = ("created_at", "changed_at", "digest_due_at", "digest_id")
    delete_more_by = "manage.py notifications delete"
    ordering = ("-id",)

    def get_readonly_fields(self, request: HttpRequest, obj: Notification | None = None) -> list[str] | tuple[str, ...]:
        """Show the times of an existing row; of a new row, the database sets them."""
        return super().get_readonly_fields(request, obj) if obj else ()


# Only Weir's own code writes the other tables. A number that a person sets would be drift. An epoch whose row a person
# deletes could be applied twice.


@admin.register(UnreadCount)
class UnreadCountAdmin(FoundByUser, ReadOnlyAdmin[UnreadCount]):
    """The stored numbers of users."""

    list_display = ("user_id", "unread_count", "epoch")
    ordering = ("user_id",)


@admin.register(FlushedEpoch)
class FlushedEpochAdmin(ReadOnlyAdmin[FlushedEpoch]):
    """Epochs that were flushed on the last day, and rows with which reconciliation refuses epochs."""

    list_display = ("epoch", "users", "flushed_at")
    ordering = ("-epoch",)


@admin.register(Doubt)
class DoubtAdmin(FoundByUser, ReadOnlyAdmin[Doubt]):
    """Users whose rows are counted until reconciliation has looked at the users."""

    list_display = ("user_id", "noted_at")
    ordering = ("noted_at",)


@admin.register(Preference)
class PreferenceAdmin(FoundByUser, ReadOnlyAdmin[Preference]):
    """The channels that users have chosen."""

    list_display = ("user_id", "kind", "channel", "since")
    ordering = ("id",)


@admin.register(ReadMark)
class ReadMarkAdmin(FoundByUser, ReadOnlyAdmin[ReadMark]):
    """Read marks, each of which marks all notifications of a user as read until these have a `read_at` of their own."""

    list_display = ("user_id", "marked_at", "up_to")
    ordering = ("marked_at",)


@admin.register(ForgottenUser)
class ForgottenUserAdmin(FoundByUser, ReadOnlyAdmin[ForgottenUser]):
    """Deleted users of whom something may be left."""

    list_display = ("user_id", "forgotten_at")
    ordering = ("forgotten_at",)


@admin.register(Reconciliation)
class ReconciliationAdmin(ReadOnlyAdmin[Reconciliation]):
    """How far reconciliation has come."""

    list_display = ("trusted", "incarnation", "changes_until", "scanned_until", "scan_began_at", "scan_took")


@admin.register(Excess)
class ExcessAdmin(FoundByUser, ReadOnlyAdmin[Excess]):
    """Users who have more unread notifications than the cap, until the oldest of these are deleted."""

    list_display = ("id", "user_id")
    ordering = ("id",)
