"""Ends a fetch as a fetcher does: the fetch gets a slot and is claimed, and its answer is judged and stored.

There is no dispatch and no waiting: the slot begins now, and uses none of the site's rate.
"""

import math
from collections.abc import Callable
from datetime import timedelta

from django.db.models.functions import Now

from weir.postgres import own_commits
from weir.ratelimit.models import Slot
from weir.ratelimit.pacing import Confirmation
from weir.workers.fetches.fetcher.claim import claim
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.fetcher.results.writer import outcome_of
from weir.workers.fetches.jobs import Event, Job
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.once import gate

_HELD_FOR = timedelta(hours=1)  # long enough for a test that is stopped in a debugger


def end(fetch: Fetch, event_of: Callable[[Job], Event]) -> Fetch:
    """End the attempt at this fetch with the event; returns the fetch as it is stored afterwards.

    Raises ValueError for a fetch that has ended, and TransactionManagementError inside a transaction of the test's own.
    """
    own_commits.refuse_transaction("answer()")
    outcome = outcome_of(event_of(_claimed(fetch)))
    store([outcome])
    return Fetch.objects.get(pk=fetch.pk)


def _claimed(fetch: Fetch) -> Job:
    queued = Fetch.objects.filter(pk=fetch.pk, state=FetchState.QUEUED)
    if (site := queued.values_list("site_id", flat=True).first()) is None:
        raise ValueError(f"{fetch.url} cannot be answered: it is {Fetch.objects.get(pk=fetch.pk).state}.")
    slot = Slot.objects.create(site_id=site, start_time=Now(), use_until=Now() + _HELD_FOR)
    queued.update(state=FetchState.RESERVED, slot_id=slot.pk, lease_until=Now() + _HELD_FOR)
    jobs, turned_away = gate.admit(claim([slot.pk], Confirmation(asked_at=math.inf)))
    if turned_away:
        raise ValueError(f"{fetch.url} cannot be answered: its effect {fetch.effect_id} cannot begin.")
    [job] = jobs
    return job
