"""The admin page of postponed tasks: which tasks wait, for which sites, and how often they were published in vain."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from weir.postgres.admin import TableAdmin
from weir.workers.throttled.models import PostponedTask


@admin.register(PostponedTask)
class PostponedTaskAdmin(TableAdmin[PostponedTask]):
    """Lists the postponed tasks, the oldest first. Deleting a row cancels its task; rows cannot be edited."""

    list_display = ("id", "task", "site", "created_at", "published_at", "publications", "not_before", "lease_until")
    search_fields = ("site__startswith", "task__startswith")
    search_help_text = "the beginning of a site's or a task's name"
    ordering = ("pk",)
    sortable_by = ("publications",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[PostponedTask]:
        """Leave out the signature, which may be long. The page of one task reads it later."""
        return super().get_queryset(request).defer("signature")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: PostponedTask | None = None) -> bool:  # noqa: ARG002  as above
        """Allow no change: an edited signature would be a task that no code has sent."""
        return False
