"""The admin of watches. It only shows them: pages, commands and the API change them."""

from django.contrib import admin
from django.utils.text import Truncator

from weir.postgres.admin import ReadOnlyAdmin
from weir.workers.watches.models import Watch

SHOWN = 100  # characters of a text in a list


@admin.register(Watch)
class WatchAdmin(ReadOnlyAdmin[Watch]):
    """Lists the watches, the newest first."""

    list_display = ("id", "short_url", "period", "next_at", "asked_at", "changed_at", "changes", "why")
    search_fields = ("host__exact",)
    search_help_text = "the host"
    ordering = ("-pk",)
    sortable_by = ()

    @admin.display(description="URL")
    def short_url(self, watch: Watch) -> str:
        return Truncator(watch.url).chars(SHOWN)

    @admin.display(description="error")
    def why(self, watch: Watch) -> str:
        return Truncator(watch.error).chars(SHOWN)
