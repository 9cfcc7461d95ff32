"""The admin pages of e-mails, paused kinds, the suppression list, held relays and the operators' acts.

These pages only show. Operators act through Weir's own pages, the commands and the API.
"""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import Truncator

from weir.postgres import planner
from weir.postgres.admin import ReadOnlyAdmin
from weir.postgres.short_paginator import ShortPaginator
from weir.workers.mail import addresses, kinds, suppression
from weir.workers.mail.models import Email, MailAct, PausedKind, RelayHold, Resolution, Suppression, Unsubscription
from weir.workers.mail.reports import searching

SHOWN = 100  # characters of a text in a list

if TYPE_CHECKING:
    ResolutionTabularInline = admin.TabularInline[Resolution, Email]
else:
    ResolutionTabularInline = admin.TabularInline  # takes no type parameter at run time


class IndexedPaginator(ShortPaginator):
    """Counts with indexes only: if PostgreSQL expected many matches, it would read the table until it found them."""

    @cached_property
    def count(self) -> int:
        """Return the number of matching rows, up to the paginator's bound."""
        with transaction.atomic():
            planner.by_indexes()
            return super().count


class KindFilter(admin.SimpleListFilter):
    """Filters by the kinds that apps have registered: to ask which kinds the table has would read the whole table."""

    title = parameter_name = "kind"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: "admin.ModelAdmin[Email]",  # noqa: ARG002  as above
    ) -> list[tuple[str, str]]:
        """Return the kinds."""
        return [(name, name) for name in kinds.names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Email]) -> QuerySet[Email]:  # noqa: ARG002  as above
        """Return the e-mails of the chosen kind."""
        return queryset.filter(kind=self.value()) if self.value() else queryset


class ResolutionInline(ResolutionTabularInline):
    """What operators said about an e-mail, on its page."""

    model = Resolution
    fields = readonly_fields = ("resolved_at", "done", "who", "why", "state", "phase", "last_reply", "claimed_by")
    ordering = ("pk",)
    extra = 0
    can_delete = False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  Django's signature
        """Users who may see the e-mail may see its resolutions."""
        return True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002  as above
        return False


@admin.register(Email)
class EmailAdmin(ReadOnlyAdmin[Email]):
    """Lists the e-mails, the newest first."""

    list_display = (
        "id",
        "state",
        "kind",
        "recipient",
        "subject",
        "attempts",
        "phase",
        "short_reply",
        "claimed_by",
        "created_at",
        "sending_since",
        "sent_at",
    )
    paginator = IndexedPaginator
    list_filter = ("state", KindFilter)
    search_fields = ("key",)  # shows the search box; get_search_results says what is searched
    search_help_text = "how the address begins, the key, or the Message-ID"
    inlines = (ResolutionInline,)
    ordering = ("-pk",)
    sortable_by = ()

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[Email],
        search_term: str,
    ) -> tuple[QuerySet[Email], bool]:
        """Search only by what an index can find: the beginning of the address, the key, the Message-ID."""
        return (searching.matching(queryset, search_term.strip().strip("\"'")) if search_term else queryset), False

    @admin.display(description="last reply")
    def short_reply(self, email: Email) -> str:
        """Return as much of the last reply as a column holds."""
        return Truncator(email.last_reply).chars(SHOWN)


@admin.register(PausedKind)
class PausedKindAdmin(ReadOnlyAdmin[PausedKind]):
    """Lists the paused kinds: no e-mail of these is begun."""

    list_display = ("kind", "paused_at", "who", "why")
    ordering = ("pk",)


@admin.register(Suppression)
class SuppressionAdmin(ReadOnlyAdmin[Suppression]):
    """Lists the suppressed addresses, to which nothing is sent."""

    list_display = ("shown", "since", "why")
    search_fields = ("address_hash",)  # shows the search box, as in EmailAdmin
    search_help_text = "the whole address, also one that was forgotten"
    ordering = ("-pk",)
    sortable_by = ()

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[Suppression],
        search_term: str,
    ) -> tuple[QuerySet[Suppression], bool]:
        """Search for the hash of the address that the user typed."""
        if not search_term:
            return queryset, False
        return queryset.filter(address_hash=suppression.address_hash(addresses.as_stored(search_term))), False

    @admin.display(description="address")
    def shown(self, entry: Suppression) -> str:
        """Return the address, or its hash if it was forgotten."""
        return entry.address or entry.address_hash


@admin.register(Unsubscription)
class UnsubscriptionAdmin(ReadOnlyAdmin[Unsubscription]):
    """Lists who has unsubscribed from which kind."""

    list_display = ("address_hash", "kind", "since")
    search_fields = ("address_hash",)  # shows the search box, as in EmailAdmin
    search_help_text = "the whole address"
    ordering = ("-pk",)
    sortable_by = ()

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[Unsubscription],
        search_term: str,
    ) -> tuple[QuerySet[Unsubscription], bool]:
        """Search for the hash of the address that the user typed."""
        if not search_term:
            return queryset, False
        return queryset.filter(address_hash=suppression.address_hash(addresses.as_stored(search_term))), False


@admin.register(RelayHold)
class RelayHoldAdmin(ReadOnlyAdmin[RelayHold]):
    """Lists the relays that cannot be used at the moment, since when, and why."""

    list_display = ("relay", "since", "tried_at", "reason")
    ordering = ("pk",)


@admin.register(MailAct)
class MailActAdmin(ReadOnlyAdmin[MailAct]):
    """Lists who paused, resumed, suppressed, released or forgot what, and why; the newest act first."""

    list_display = ("acted_at", "what", "about", "who", "why")
    list_filter = ("what",)
    search_fields = ("about__exact",)
    search_help_text = "the kind, or the hash of the address"
    ordering = ("-pk",)
    sortable_by = ()
