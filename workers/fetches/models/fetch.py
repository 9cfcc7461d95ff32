"""Fetch: one URL on its way from `queued` to a result or a stated failure."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import MD5, Collate, Left, Now

from weir.conf.texts.references import LONGEST_REFERENCE
from weir.conf.texts.share_weights import LONGEST_SHARE
from weir.ratelimit.models import Site
from weir.workers import task_names
from weir.workers.effects.models import Effect
from weir.workers.effects.names import HANDED_OVER
from weir.workers.fetches.methods import METHODS, MOST_REDIRECTS, USUAL_REDIRECTS
from weir.workers.fetches.models.batch import Batch
from weir.workers.fetches.models.contents import HasBodies
from weir.workers.fetches.models.states import ACTIVE, FINAL, HELD, ByState, FetchState
from weir.workers.tracing.rows import Traced

URL_KEY = 100  # characters of a URL that weir_fetch_by_url indexes
HIGHEST_PRIORITY = 32_767  # of what Weir itself asks for, which goes before all that users ask for
NO_HEADERS = Value([], models.JSONField())
WEBHOOK = Q(endpoint_id__isnull=False)  # of an endpoint's webhooks in each state: how many, and the last ends
# Its request may have happened, and is not made again before that is known.
AWAITS_EFFECT = Q(effect__isnull=False, state=FetchState.QUEUED, not_before__gte=HANDED_OVER)
KEPT = Q(on_done_again_at__isnull=False)  # the call of `on_done` is kept, as a worker did not know the task


class FetchQuerySet(ByState["Fetch"]):
    """Filters by state."""


class Fetch(HasBodies, Traced):
    """One URL to request. Once accepted, it ends `done`, `failed` with a reason, or `cancelled`; never silently."""

    url = models.TextField()
    hop_url = models.TextField(blank=True, help_text="what is requested: url as it is sent, or where redirects led")
    method = models.CharField(max_length=6, default="GET", db_default="GET", help_text="as it was asked for")
    has_become_get = models.BooleanField(default=False, db_default=False, help_text="by a redirect")
    idempotency_key = models.UUIDField(
        null=True, help_text="the Idempotency-Key of all attempts; NULL for GET, HEAD, and if request_headers has one"
    )
    redirects = models.PositiveSmallIntegerField(default=0, db_default=0)
    redirect_chain = models.JSONField(
        null=True, help_text="[status, URL] of each redirect: where it led; NULL without a redirect"
    )
    max_redirects = models.PositiveSmallIntegerField(
        default=USUAL_REDIRECTS, db_default=USUAL_REDIRECTS, help_text="0: a redirect is the result"
    )
    # No constraint: its check would lock the site's row in every transaction of web code that enqueues, and every
    # reservation waits for that row. The site of a fetch that has ended may be deleted; the site of a queued fetch may
    # be missing for a moment (maintenance/deleted_sites.py). It needs no index: weir_fetch_queue begins with it.
    site = models.ForeignKey(
        Site, models.PROTECT, null=True, db_constraint=False, db_index=False, help_text="the site of the next hop"
    )
    state = models.CharField(max_length=10, choices=FetchState, default=FetchState.QUEUED)
    priority = models.SmallIntegerField(default=0, help_text="higher goes first")
    not_before = models.DateTimeField(db_default=Now())
    due_since = models.DateTimeField(
        null=True,
        help_text="not_before as it was before a wait for robots.txt or an access token: its place in the queue",
    )
    attempts = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="attempts that ended, and losses that count as one"
    )
    losses = models.IntegerField(default=0, db_default=0, help_text="how often it was lost with a fetcher")
    in_hand = models.BooleanField(default=False, db_default=False, help_text="a fetcher has its answer alone in hand")
    max_attempts = models.PositiveSmallIntegerField(default=5)
    # The slot is also the fence: a result is stored only by the holder of the slot that the fetch still has.
    slot_id = models.BigIntegerField(null=True)
    lease_until = models.DateTimeField(null=True, help_text="when sweep takes it back, if no result has been stored")
    # No constraint, which would slow each claim and outlive processes' rows; sweep reads it of held fetches alone.
    claimed_by = models.BigIntegerField(null=True, help_text="the process that claimed it last; its row may be gone")
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, help_text="when the request was written (the database's clock)")
    finished_at = models.DateTimeField(null=True)
    lateness_ms = models.FloatField(null=True, help_text="from the slot's start to the writing of the request")
    elapsed_ms = models.FloatField(null=True, help_text="from the writing of the request to the end of the body")
    status_code = models.PositiveSmallIntegerField(null=True)
    has_left_origin = models.BooleanField(default=False, db_default=False, help_text="by a redirect")
    headers_key = models.BigIntegerField(null=True, help_text="of those with which it was last requested")
    request_headers = models.JSONField(null=True, help_text="by name; placeholders for secrets")
    headers = models.JSONField(
        default=list, db_default=NO_HEADERS, blank=True, help_text="[name, value] pairs, as they came"
    )
    etag = models.TextField(blank=True, default="", db_default="")
    last_modified = models.TextField(blank=True, default="", db_default="")
    error = models.TextField(blank=True, default="", db_default="")
    incomplete = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="why the stored body is not all of it, or not what its headers say; empty: it is whole",
    )
    revalidate = models.BooleanField(
        default=False, db_default=False, help_text="ask only whether the last good result of this URL still holds"
    )
    unchanged_from = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="the earlier fetch whose body a 304 refers to; purge keeps it as long as this one",
    )
    on_done = models.CharField(
        max_length=task_names.LONGEST,
        blank=True,
        default="",
        db_default="",
        help_text="the Celery task that is called with the id at the end",
    )
    on_done_called_at = models.DateTimeField(null=True)
    on_done_again_at = models.DateTimeField(null=True, help_text="when it is called again: a worker knew no such task")
    dedupe_key = models.UUIDField(null=True, help_text="of all fetches with the same key, one may be unfinished")
    is_robots = models.BooleanField(default=False, db_default=False, help_text="a robots.txt that Weir itself asks for")
    token_client = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="the OAuth client for which Weir itself asks for an access token; dedupe_key is the token's key",
    )
    # No constraint: its check would lock the batch's row. The index weir_fetch_of_batch serves it.
    batch = models.ForeignKey(
        Batch,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="fetches",
        help_text="in which it is counted",
    )
    reference = models.CharField(  # noqa: DJ001  NULL is not in weir_fetch_reference
        max_length=LONGEST_REFERENCE,
        null=True,
        blank=True,
        help_text="the caller's own name for it; not unique",
    )
    share = models.CharField(  # noqa: DJ001  NULL is not in weir_fetch_shares
        max_length=LONGEST_SHARE,
        null=True,
        blank=True,
        db_collation="C",
        help_text="whose it is: the shares of a site take turns; NULL, and where the site has shares empty: nobody's",
    )
    endpoint_id = models.BigIntegerField(null=True, help_text="to which it is a webhook; the endpoint may be gone")
    # Its request is made once: its attempts are the effect's. No constraint: the effect may be deleted first.
    effect = models.ForeignKey(
        Effect, models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="fetches"
    )

    objects: ClassVar = FetchQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "fetches"
        permissions: ClassVar = [("send_fetch", "Can have sites asked with POST, PUT, PATCH and DELETE")]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=FetchState.values), name="weir_fetch_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in FINAL]) ^ Q(finished_at__isnull=True),
                name="weir_fetch_final_has_finished_at",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[s.value for s in HELD]) | Q(slot_id__isnull=False, lease_until__isnull=False),
                name="weir_fetch_held_has_slot_and_lease",
            ),
            models.CheckConstraint(
                condition=Q(site__isnull=False) | Q(state=FetchState.FAILED), name="weir_fetch_without_site_is_failed"
            ),
            models.CheckConstraint(
                condition=~Q(state=FetchState.DONE) | Q(status_code__isnull=False), name="weir_fetch_done_has_status"
            ),
            models.CheckConstraint(
                condition=~Q(state=FetchState.FAILED) | ~Q(error=""), name="weir_fetch_failed_says_why"
            ),
            models.CheckConstraint(condition=Q(max_attempts__gte=1), name="weir_fetch_max_attempts_positive"),
            models.CheckConstraint(condition=Q(method__in=METHODS), name="weir_fetch_method_known"),
            models.CheckConstraint(
                condition=Q(max_redirects__lte=MOST_REDIRECTS), name="weir_fetch_max_redirects_bounded"
            ),
            # Enqueue with `dedupe`: one unfinished fetch for each key. A key is free again when its fetch ends.
            models.UniqueConstraint(
                fields=["dedupe_key"],
                condition=Q(dedupe_key__isnull=False, state__in=[s.value for s in ACTIVE]),
                name="weir_fetch_unfinished_once",
            ),
            # The robots.txt of an origin is asked for once at a time, however many fetches wait for it.
            models.UniqueConstraint(
                fields=["url"],
                condition=Q(is_robots=True, state__in=[s.value for s in ACTIVE]),
                name="weir_fetch_robots_once",
            ),
        ]
        indexes: ClassVar = [
            # Dispatch: the best queued fetches of a site (priority, then age).
            models.Index(
                F("site"),
                F("priority").desc(),
                F("not_before"),
                F("id"),
                condition=Q(state=FetchState.QUEUED),
                name="weir_fetch_queue",
            ),
            # Dispatch at a site with shares: the best queued fetches of each (weir_fetches_in_turn). The condition is
            # another one than that of weir_fetch_queue, which PostgreSQL might read in its place, from end to end.
            models.Index(
                fields=["site", "share", "-priority", "not_before", "id"],
                condition=Q(share__isnull=False, lease_until__isnull=True, finished_at__isnull=True),
                name="weir_fetch_shares",
            ),
            # A robots.txt is known now: which fetches of the site wait for it?
            models.Index(
                fields=["site"],
                condition=Q(state=FetchState.QUEUED, due_since__isnull=False),
                name="weir_fetch_waits_for_robots",
            ),
            # Dispatch: how many fetches of a site with max_concurrency are held. Sweep: which leases of held fetches
            # have run out. Held fetches are never more than a few seconds' worth.
            models.Index(
                fields=["site", "lease_until"],
                condition=Q(state__in=[s.value for s in HELD]),
                name="weir_fetch_held",
            ),
            # Claim: which fetch has a slot? The condition selects the rows of weir_fetch_held, but is another one: with
            # the same one, and statistics without held fetches, PostgreSQL might read all of weir_fetch_held instead.
            models.Index(fields=["slot_id"], condition=Q(lease_until__isnull=False), name="weir_fetch_of_slot"),
            # Claim, if a fetch revalidates: the last good result of its URL that has validators.
            models.Index(
                MD5("hop_url"),
                F("finished_at").desc(),
                condition=Q(state=FetchState.DONE, status_code=200) & (~Q(etag="") | ~Q(last_modified="")),
                name="weir_fetch_validators",
            ),
            # Purge, claim: does a later result refer to the body of this one?
            models.Index(
                fields=["unchanged_from", "finished_at"],
                condition=Q(unchanged_from__isnull=False),
                name="weir_fetch_unchanged_from",
            ),
            # Purge: the oldest results.
            models.Index(fields=["finished_at"], condition=Q(finished_at__isnull=False), name="weir_fetch_finished"),
            # Sweep: calls of `on_done` that were not made yet.
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, on_done_called_at__isnull=True) & ~Q(on_done=""),
                name="weir_fetch_on_done_due",
            ),
            # The tick of watches: ends that wait to be judged, however many calls of other tasks were not made.
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, on_done_called_at__isnull=True, on_done=task_names.KEEP_WATCH),
                name="weir_fetch_to_be_judged",
            ),
            # Sweep, overview: the calls of `on_done` that are kept, of any task, and of each.
            models.Index(fields=["on_done_again_at"], condition=KEPT, name="weir_fetch_called_again"),
            models.Index(fields=["on_done", "on_done_again_at"], condition=KEPT, name="weir_fetch_task_called_again"),
            # Fetch list: fetches that ended at a site, in some states, the last end first.
            models.Index(
                fields=["site", "state", "finished_at", "id"],
                condition=Q(finished_at__isnull=False),
                name="weir_fetch_ended_at_site",
            ),
            # Fetch list: fetches that ended, but not `done`, at any site, the last end first. It has few entries.
            models.Index(
                fields=["state", "finished_at", "id"],
                condition=Q(state__in=[FetchState.FAILED.value, FetchState.CANCELLED.value]),
                name="weir_fetch_not_done",
            ),
            # Fetch list: queued fetches of any site, the newest first. The condition is another one than that of
            # weir_fetch_queue: PostgreSQL might read all of this index in its place, for each look at a site.
            models.Index(
                fields=["created_at", "id"],
                condition=Q(state=FetchState.QUEUED, finished_at__isnull=True),
                name="weir_fetch_newest_queued",
            ),
            # Fetch list: a URL, or all with this beginning. A URL may be longer than an index entry, so it is cut. Held
            # fetches are few and not in it, because each change of their rows would then change this index, too.
            models.Index(
                Collate(Left("url", URL_KEY), "C"),
                F("id"),
                condition=~Q(state__in=[s.value for s in HELD]),
                name="weir_fetch_by_url",
            ),
            # Cancelling and retrying a batch, its page, and the list of its fetches, state by state.
            models.Index(fields=["batch", "state", "id"], condition=Q(batch__isnull=False), name="weir_fetch_of_batch"),
            # Fetch list: those of a reference, the newest first.
            models.Index(fields=["reference", "id"], condition=Q(reference__isnull=False), name="weir_fetch_reference"),
            models.Index(
                fields=["endpoint_id", "state", "finished_at"], condition=WEBHOOK, name="weir_fetch_of_endpoint"
            ),
            # A mailer hands the effect over.
            models.Index(fields=["effect"], condition=Q(effect__isnull=False), name="weir_fetch_of_effect"),
            # Sweep: fetches that wait for what becomes of their effects.
            models.Index(fields=["id"], condition=AWAITS_EFFECT, name="weir_fetch_awaits_effect"),
        ]

    def __str__(self) -> str:
        return f"fetch {self.pk} ({self.state}) {self.url[:100]}"
