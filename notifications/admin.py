"""The operators' pages: notifications, which may be edited like any rows, and what the counters remember."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from notifications.models import Doubt, FlushedEpoch, Healing, Notification, UnreadCount
from postgres.short_paginator import ShortPaginator

if TYPE_CHECKING:
    NotificationModelAdmin = admin.ModelAdmin[Notification]
    AnyModelAdmin = admin.ModelAdmin[Any]
else:
    NotificationModelAdmin = AnyModelAdmin = admin.ModelAdmin  # takes no parameter when it runs


@admin.register(Notification)
class NotificationAdmin(NotificationModelAdmin):
    """Whatever is added, changed or deleted here is counted."""

    list_display = ("id", "user_id", "kind", "title", "created_at", "read_at")
    list_filter = (("read_at", admin.EmptyFieldListFilter),)
    search_fields = ("=user_id",)
    search_help_text = "A user's id"
    readonly_fields = ("created_at", "changed_at")
    ordering = ("-id",)
    show_full_result_count = False
    paginator = ShortPaginator
    show_facets = admin.ShowFacets.NEVER

    def get_readonly_fields(self, request: HttpRequest, obj: Notification | None = None) -> list[str] | tuple[str, ...]:
        """Return the times of one that exists; the database gives them to a new one."""
        return super().get_readonly_fields(request, obj) if obj else ()


class ReadOnlyAdmin(AnyModelAdmin):
    """What flush and heal write is looked at, never edited."""

    show_full_result_count = False
    paginator = ShortPaginator

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        """Rows are made by flush and heal."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """A number set by hand would be drift."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        """A note that is gone could be applied twice."""
        return False


@admin.register(UnreadCount)
class UnreadCountAdmin(ReadOnlyAdmin):
    """What was flushed of users' numbers."""

    list_display = ("user_id", "unread_count", "epoch")
    search_fields = ("=user_id",)
    search_help_text = "A user's id"
    ordering = ("user_id",)


@admin.register(FlushedEpoch)
class FlushedEpochAdmin(ReadOnlyAdmin):
    """The flushes of the last day, and the epochs that heal refused."""

    list_display = ("epoch", "users", "flushed_at")
    ordering = ("-epoch",)


@admin.register(Doubt)
class DoubtAdmin(ReadOnlyAdmin):
    """Users whose rows are counted until heal has looked."""

    list_display = ("user_id", "noted_at")
    ordering = ("noted_at",)


@admin.register(Healing)
class HealingAdmin(ReadOnlyAdmin):
    """How far heal has come."""

    list_display = ("trusted", "incarnation", "changes_until", "scrubbed_until", "round_began_at", "round_took")
