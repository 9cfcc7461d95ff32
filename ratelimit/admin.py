"""The operators' page of sites. Nothing is edited in forms: saving one would set a site's clock back."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest

from ratelimit import site_settings
from ratelimit.models import Site
from ratelimit.rates import format_rate

if TYPE_CHECKING:
    SiteModelAdmin = admin.ModelAdmin[Site]
else:
    SiteModelAdmin = admin.ModelAdmin  # takes no parameter when it runs


@admin.register(Site)
class SiteAdmin(SiteModelAdmin):
    """Lists the sites; `manage.py sites set` changes a rate, the actions pause and resume."""

    list_display = (
        "name",
        "rate",
        "burst",
        "max_concurrency",
        "covers_subdomains",
        "state",
        "paused_until",
        "backed_off_until",
        "next_start",
    )
    list_filter = ("has_backlog", "covers_subdomains")
    search_fields = ("name",)
    ordering = ("name",)
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = ("pause", "resume")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        """Add the site's state, by the database's clock."""
        state = Case(
            When(paused_until__gt=Now(), then=Value("paused")),
            When(backed_off_until__gt=Now(), then=Value("backed off")),
            When(Q(has_backlog=True) | Q(next_start__gt=Now()), then=Value("busy")),
            default=Value("idle"),
            output_field=CharField(),
        )
        return super().get_queryset(request).annotate(state=state)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  Django's signature
        """Sites are created by fetches and by `manage.py sites set`."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Site | None = None) -> bool:
        """Whoever may change sites may use the actions; no site has a form."""
        return obj is None and super().has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Site | None = None) -> bool:  # noqa: ARG002  Django's signature
        """A deleted site would forget when it was last asked."""
        return False

    @admin.display(ordering="-interval")
    def rate(self, site: Site) -> str:
        """Return the rate as people write it."""
        return format_rate(site.interval)

    @admin.display(ordering="state")
    def state(self, site: Site) -> str:
        """Return what the site was doing when it was read."""
        return str(getattr(site, "state", ""))

    @admin.action(description="Pause until resumed", permissions=["change"])
    def pause(self, request: HttpRequest, chosen: QuerySet[Site]) -> None:
        """Start nothing at the chosen sites."""
        self._each(request, chosen, site_settings.pause, "paused")

    @admin.action(description="Resume (ends back-offs, too)", permissions=["change"])
    def resume(self, request: HttpRequest, chosen: QuerySet[Site]) -> None:
        """Let the chosen sites start again, at their rates."""
        self._each(request, chosen, site_settings.resume, "resumed")

    def _each(self, request: HttpRequest, chosen: QuerySet[Site], do: Callable[[str], None], done: str) -> None:
        names = list(chosen.values_list("name", flat=True))
        for name in names:
            do(name)
        self.message_user(request, f"{len(names)} {'site' if len(names) == 1 else 'sites'} {done}.", messages.SUCCESS)
