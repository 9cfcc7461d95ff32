"""The operators' pages of fetches (queued, failed and why) and of robots.txt files."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.utils.text import Truncator

from weir.postgres.admin import ActionsAdmin
from weir.workers.audit.acting_admin import ActingAdmin
from weir.workers.fetches.actions import fetches as actions
from weir.workers.fetches.actions import sites as site_actions
from weir.workers.fetches.models import Fetch, RobotsFile, State

SHOWN = 100  # characters of a text in a list
MOST_CANCELLED = 1_000
MOST_RETRIED = 10_000
MOST_NAMED = 100  # in the audit trail
CANCELLABLE = (State.QUEUED, State.RESERVED)


@admin.register(Fetch)
class FetchAdmin(ActingAdmin[Fetch], ActionsAdmin[Fetch]):
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
    raw_id_fields = ("site",)
    sortable_by = ()
    actions = ("cancel", "retry")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Fetch]:
        """Leave out the headers, which may be long: the page of one fetch reads them."""
        return super().get_queryset(request).defer("headers")

    @admin.display(description="URL")
    def short_url(self, fetch: Fetch) -> str:
        return Truncator(fetch.url).chars(SHOWN)

    @admin.display(description="error")
    def why(self, fetch: Fetch) -> str:
        return Truncator(fetch.error).chars(SHOWN)

    @admin.action(description="Cancel (what no fetcher holds yet)", permissions=["change"])
    def cancel(self, request: HttpRequest, chosen: QuerySet[Fetch]) -> None:
        """Cancel those of the chosen fetches that no fetcher holds."""
        ids = list(chosen.filter(state__in=CANCELLABLE).values_list("pk", flat=True)[:MOST_CANCELLED])
        actor = self.actor(request)
        cancelled = sum(actions.cancel(actor, fetch_id) for fetch_id in ids)
        self.message_user(request, f"{cancelled} fetch{pluralize(cancelled, 'es')} cancelled.", messages.SUCCESS)
        if len(ids) == MOST_CANCELLED:
            self.message_user(
                request,
                f"At most {MOST_CANCELLED} are cancelled at once: repeat it for the rest.",
                messages.WARNING,
            )

    @admin.action(description="Retry (failed ones)", permissions=["change"])
    def retry(self, request: HttpRequest, chosen: QuerySet[Fetch]) -> None:
        """Queue those of the chosen fetches that failed again."""
        actor = self.actor(request)
        ids = " ".join(map(str, chosen.order_by("pk").values_list("pk", flat=True)[:MOST_NAMED]))
        retried = actions.retry(actor, chosen, {"id": ids}, limit=MOST_RETRIED)
        for sentence in retried.sentences():
            self.message_user(request, sentence, messages.SUCCESS if retried.queued else messages.WARNING)
        if retried.tried >= MOST_RETRIED:
            self.message_user(
                request, f"At most {MOST_RETRIED:,} are retried at once: repeat it for the rest.", messages.WARNING
            )


@admin.register(RobotsFile)
class RobotsFileAdmin(ActingAdmin[RobotsFile], ActionsAdmin[RobotsFile]):
    """Lists what is known of robots.txt files; `ask again` has them fetched anew."""

    list_display = ("origin", "state", "crawl_delay", "site", "fetched_at", "refresh_at", "expires_at", "why")
    list_filter = ("state",)
    search_fields = ("origin__startswith",)
    search_help_text = "the beginning, such as https://example.com"
    ordering = ("origin",)
    list_select_related = ("site",)
    raw_id_fields = ("site",)
    sortable_by = ()
    actions = ("ask_again",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[RobotsFile]:
        """Leave out the rules, which may be long: the page of one file reads them."""
        return super().get_queryset(request).defer("rules")

    @admin.display(description="error")
    def why(self, file: RobotsFile) -> str:
        return Truncator(file.error).chars(SHOWN)

    @admin.action(description="Ask again (nothing is fetched there until it has come)", permissions=["change"])
    def ask_again(self, request: HttpRequest, chosen: QuerySet[RobotsFile]) -> None:
        """Forget what the chosen said, and ask for them."""
        actor = self.actor(request)
        count = site_actions.ask_robots(actor, list(chosen.values_list("pk", flat=True)))
        self.message_user(request, f"{count} robots.txt file{pluralize(count)} asked for again.", messages.SUCCESS)
