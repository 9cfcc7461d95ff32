"""What the admin pages of all apps have in common."""

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import URLPattern

from postgres.own_commits import leave_commits_to
from postgres.short_paginator import ShortPaginator

Row = TypeVar("Row", bound=Model)

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as TypedAdmin
    from django.core.paginator import Paginator
else:

    class TypedAdmin(admin.ModelAdmin, Generic[Row]):
        """Django's ModelAdmin, which takes its model as a type parameter in django-stubs only, and here at run time."""


class TableAdmin(TypedAdmin[Row]):
    """The pages of a table that may have millions of rows: no page counts them all.

    Actions commit by themselves, and so no page gets a transaction of Django's; its forms have their own.
    """

    paginator: ClassVar["type[Paginator[Any]]"] = ShortPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    @property
    def urls(self) -> list[URLPattern]:
        patterns = self.get_urls()
        leave_commits_to(patterns)
        return patterns


class ActionsAdmin(TableAdmin[Row]):
    """The pages of rows that code writes, and that operators change by actions only: none is added, edited or deleted.

    Actions ask for the permission "change", without a row; a form asks with its row, and is refused.
    """

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  as above
        return False


class ReadOnlyAdmin(ActionsAdmin[Row]):
    """The pages of rows that code alone writes: they have no actions either."""

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  as above
        return False
