"""The operators' page of postponed tasks: what waits, for which site, and what is published in vain."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from postgres.short_paginator import ShortPaginator
from workers.throttled.models import PostponedTask

if TYPE_CHECKING:
    PostponedTaskModelAdmin = admin.ModelAdmin[PostponedTask]
else:
    PostponedTaskModelAdmin = admin.ModelAdmin  # takes no parameter when it runs


@admin.register(PostponedTask)
class PostponedTaskAdmin(PostponedTaskModelAdmin):
    """Lists the tasks that wait for their site, the oldest first; deleting one cancels it."""

    list_display = ("id", "task", "site", "created_at", "published_at", "publications", "not_before", "lease_until")
    search_fields = ("site__startswith", "task__startswith")
    search_help_text = "the beginning of a site's or a task's name"
    ordering = ("pk",)
    paginator = ShortPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ("publications",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[PostponedTask]:
        """Leave the signature, which may be long, to the page of one task."""
        return super().get_queryset(request).defer("signature")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        """Workers write the rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: PostponedTask | None = None) -> bool:  # noqa: ARG002  as above
        """A signature or a lease set by hand would be a task nobody sent."""
        return False
