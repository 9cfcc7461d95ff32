"""The admin page of sites. It has no form: saving one would set the site's clock back."""

from collections.abc import Callable

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest
from django.template.defaultfilters import pluralize

from weir.postgres.admin import ActionsAdmin
from weir.ratelimit.models import Site
from weir.workers.audit.acting import Actor
from weir.workers.audit.acting_admin import ActingAdmin
from weir.workers.fetches.actions import sites


@admin.register(Site)
class SiteAdmin(ActingAdmin[Site], ActionsAdmin[Site]):
    """Lists the sites. Two actions pause and resume them; `manage.py sites set` creates them and changes their rates.

    No site is deleted here: `manage.py sites delete` looks first whether its clock still counts, and who needs it.
    """

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
    actions = ("pause", "resume")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        """Add each site's state, by the clock of the database."""
        state = Case(
            When(paused_until__gt=Now(), then=Value("paused")),
            When(~Q(backoff_error=""), backed_off_until__gt=Now(), then=Value("unreachable")),
            When(refused_until__isnull=False, backed_off_until__gt=Now(), then=Value("resting")),
            When(backed_off_until__gt=Now(), then=Value("backed off")),
            When(Q(has_backlog=True) | Q(due_at__isnull=False) | Q(next_start__gt=Now()), then=Value("busy")),
            default=Value("idle"),
            output_field=CharField(),
        )
        return super().get_queryset(request).annotate(state=state)

    @admin.display(ordering="-interval")
    def rate(self, site: Site) -> str:
        return site.rate

    @admin.display(ordering="state")
    def state(self, site: Site) -> str:
        return str(getattr(site, "state", ""))

    @admin.action(description="Pause until resumed", permissions=["change"])
    def pause(self, request: HttpRequest, chosen: QuerySet[Site]) -> None:
        self._each(request, chosen, sites.pause, "paused")

    @admin.action(description="Resume (ends back-offs, too)", permissions=["change"])
    def resume(self, request: HttpRequest, chosen: QuerySet[Site]) -> None:
        self._each(request, chosen, sites.resume, "resumed")

    def _each(self, request: HttpRequest, chosen: QuerySet[Site], do: Callable[[Actor, str], None], done: str) -> None:
        names = list(chosen.values_list("name", flat=True))
        actor = self.actor(request)
        for name in names:
            do(actor, name)
        self.message_user(request, f"{len(names)} site{pluralize(names)} {done}.", messages.SUCCESS)
