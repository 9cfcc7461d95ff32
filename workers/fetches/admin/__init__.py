"""The admin of fetches, batches, robots.txt files and sites. It only shows them."""

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest
from django.utils.text import Truncator

from weir.postgres.admin import ReadOnlyAdmin
from weir.ratelimit.models import Site, held_state
from weir.workers.fetches.models import Batch, Fetch, RobotsFile

SHOWN = 100  # characters of a text in a list


@admin.register(Fetch)
class FetchAdmin(ReadOnlyAdmin[Fetch]):
    """Lists the fetches, the newest first."""

    list_display = (
        "id",
        "state",
        "site",
        "short_url",
        "status_code",
        "attempts",
        "why",
        "created_at",
        "started_at",
        "finished_at",
        "lateness_ms",
        "elapsed_ms",
    )
    list_filter = ("state",)
    search_fields = ("url__startswith",)
    search_help_text = "the beginning of the URL"
    ordering = ("-pk",)
    list_select_related = ("site",)
    raw_id_fields = ("site", "batch")
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Fetch]:
        """Leave out the headers, which may be long: the page of one fetch reads them."""
        return super().get_queryset(request).defer("headers")

    @admin.display(description="URL")
    def short_url(self, fetch: Fetch) -> str:
        return Truncator(fetch.url).chars(SHOWN)

    @admin.display(description="error")
    def why(self, fetch: Fetch) -> str:
        return Truncator(fetch.error).chars(SHOWN)


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin[Batch]):
    """Lists the batches, the newest first. Their numbers are those of the last fold, some seconds old."""

    list_display = (
        "id",
        "name",
        "is_open",
        "unfinished",
        "done",
        "failed",
        "cancelled",
        "created_at",
        "ended_at",
        "on_done_called_at",
    )
    search_fields = ("name__exact",)
    search_help_text = "the name"
    ordering = ("-pk",)
    sortable_by = ()


@admin.register(RobotsFile)
class RobotsFileAdmin(ReadOnlyAdmin[RobotsFile]):
    """Lists the robots.txt files that are known."""

    list_display = ("origin", "state", "crawl_delay", "site", "fetched_at", "refresh_at", "expires_at", "why")
    list_filter = ("state",)
    search_fields = ("origin__startswith",)
    search_help_text = "the beginning, such as https://example.com"
    ordering = ("origin",)
    list_select_related = ("site",)
    raw_id_fields = ("site",)
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[RobotsFile]:
        """Leave out the rules, which may be long: the page of one file reads them."""
        return super().get_queryset(request).defer("rules")

    @admin.display(description="error")
    def why(self, file: RobotsFile) -> str:
        return Truncator(file.error).chars(SHOWN)


@admin.register(Site)
class SiteAdmin(ReadOnlyAdmin[Site]):
    """Lists the sites, by name. Saving a form would set a site's clock back."""

    list_display = (
        "name",
        "rate",
        "burst",
        "max_concurrency",
        "covers_subdomains",
        "state",
        "paused_until",
        "backed_off_until",
        "backoff_error",
        "backoff_reason",
        "next_start",
    )
    list_filter = ("has_backlog", "covers_subdomains")
    search_fields = ("name",)
    ordering = ("name",)
    paginator = Paginator  # every site can be reached by paging

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        """Add each site's state, by the clock of the database."""
        is_busy = Q(has_backlog=True) | Q(due_at__isnull=False) | Q(next_start__gt=Now())
        otherwise = Case(When(is_busy, then=Value("busy")), default=Value("idle"), output_field=CharField())
        return super().get_queryset(request).annotate(state=Coalesce(held_state(), otherwise))

    @admin.display(ordering="-interval")
    def rate(self, site: Site) -> str:
        return site.rate

    @admin.display(ordering="state")
    def state(self, site: Site) -> str:
        return str(getattr(site, "state", ""))
