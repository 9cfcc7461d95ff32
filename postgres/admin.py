"""What the admin's pages of all apps have in common."""

from typing import TYPE_CHECKING, Generic, TypeVar

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from postgres.short_paginator import ShortPaginator

Row = TypeVar("Row", bound=Model)

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as TypedAdmin
else:

    class TypedAdmin(admin.ModelAdmin, Generic[Row]):
        """Django's ModelAdmin, which takes its model as a type parameter in django-stubs only, and here at run time."""


class TableAdmin(TypedAdmin[Row]):
    """The pages of a table that may have millions of rows: nothing counts them all."""

    paginator = ShortPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER


class ReadOnlyAdmin(TableAdmin[Row]):
    """The pages of rows that code writes: people look at them, and add, change and delete none."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        """Allow nobody to add a row."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  as above
        """Allow nobody to change a row."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:  # noqa: ARG002  as above
        """Allow nobody to delete a row."""
        return False
