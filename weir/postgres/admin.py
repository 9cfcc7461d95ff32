"""What the admin pages of all apps have in common."""

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.auth import get_permission_codename
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern

from weir.postgres.own_commits import leave_commits_to
from weir.postgres.short_paginator import ShortPaginator

Row = TypeVar("Row", bound=Model)

DELETE = "delete_selected"  # Django's name
MOST_DELETED = 1_000  # rows that are deleted by one page

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as TypedAdmin
    from django.core.paginator import Paginator
else:

    class TypedAdmin(admin.ModelAdmin, Generic[Row]):
        """Django's ModelAdmin, with a type parameter at run time, too: Django's own has one only in django-stubs."""


class TableAdmin(TypedAdmin[Row]):
    """The admin pages of a table that may have millions of rows: no page counts all rows.

    Actions commit by themselves. So Django begins no transaction for a page; the admin's forms begin their own.
    """

    paginator: ClassVar["type[Paginator[Any]]"] = ShortPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    delete_more_by = ""  # a command

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return Django's actions, with a limit for `delete_selected`, which loads and lists all chosen rows."""
        found: dict[str, Any] = super().get_actions(request)
        if DELETE in found:
            found[DELETE] = (_delete_selected, *found[DELETE][1:])
        return found

    @property
    def urls(self) -> list[URLPattern]:
        patterns = self.get_urls()
        leave_commits_to(patterns)
        return patterns


def _delete_selected(shown: TableAdmin[Row], request: HttpRequest, queryset: QuerySet[Row]) -> HttpResponseBase | None:
    if len(queryset.order_by().values_list("pk")[: MOST_DELETED + 1]) <= MOST_DELETED:
        return delete_selected(shown, request, queryset)
    more = f"delete more by {shown.delete_more_by}" if shown.delete_more_by else "choose fewer"
    shown.message_user(request, f"At most {MOST_DELETED:,} are deleted here immediately; {more}.", messages.ERROR)
    return None


class ReadOnlyAdmin(TableAdmin[Row]):
    """The admin pages of rows that only code writes: users cannot add, edit or delete a row, and there are no actions.

    A user needs the permission to view. Unlike in Django, the permission to change is not enough.
    """

    def has_view_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  Django's signature
        codename = get_permission_codename("view", self.opts)
        return request.user.has_perm(f"{self.opts.app_label}.{codename}")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  as above
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  as above
        return False
