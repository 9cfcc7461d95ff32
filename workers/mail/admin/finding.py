"""How operators find e-mails in the list, and who may see which columns."""

from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from weir.postgres import planner
from weir.postgres.short_paginator import ShortPaginator
from weir.workers.mail import kinds
from weir.workers.mail.admin import previews
from weir.workers.mail.models import Email

# Whom an e-mail is for, and what it says. Who may only resolve it needs neither.
FOR_READERS = ("recipient", "recipient_name", "subject", "context")


def may_see(request: HttpRequest, column: str) -> bool:
    """Tell whether the user may see the column of e-mails."""
    return column not in FOR_READERS or request.user.has_perm(previews.MAY_READ)


class IndexedPaginator(ShortPaginator):
    """Counts by indexes: where PostgreSQL believes that many match, it would read the table until it has found them."""

    @cached_property
    def count(self) -> int:
        """Return how many there are, up to the bound."""
        with transaction.atomic():
            planner.by_indexes()
            return super().count


class KindFilter(admin.SimpleListFilter):
    """The kinds that apps have registered: to ask which ones there are in the table would read all of it."""

    title = parameter_name = "kind"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: "admin.ModelAdmin[Email]",  # noqa: ARG002  as above
    ) -> list[tuple[str, str]]:
        """Return the kinds."""
        return [(name, name) for name in kinds.names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Email]) -> QuerySet[Email]:  # noqa: ARG002  as above
        """Return those of the kind."""
        return queryset.filter(kind=self.value()) if self.value() else queryset
