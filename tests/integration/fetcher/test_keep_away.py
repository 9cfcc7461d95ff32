"""Fetchers of the version before this one know no methods, and would send a GET: they get no other fetch."""

import copy
from datetime import timedelta
from typing import Any

import pytest

from tests import upgrade_from
from tests.integration.conftest import claim
from tests.integration.fetching import reserve_all
from weir.conf import settings
from weir.postgres.statements import Statement, executed
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches import backlog, cancelling
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.claim import CLAIM
from weir.workers.fetches.jobs import longest_hold_s
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

SITE = "site.example"


@pytest.fixture
def claim_before() -> Statement[Any]:
    """The statement with which fetchers of the version before claim."""
    [path] = [path for path in upgrade_from.files("workers/fetches") if path.endswith("/claim.sql")]
    before = copy.copy(CLAIM)
    vars(before).update(text=executed(upgrade_from.text(path)), _row=None, _make=tuple)
    return before


def test_a_fetcher_of_the_version_before_claims_only_gets(claim_before: Statement[Any]) -> None:
    """It leaves the others reserved; claiming again, as it does then, it gives them back to the queue."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(seconds=10))
    methods = ("GET", "POST", "HEAD", "GET")
    for method in methods:
        request_fetch(f"https://{SITE}/", method=method, repeatable=True)
    assert dispatch() == len(methods)
    slots = list(Fetch.objects.order_by("slot_id").values_list("slot_id", flat=True))

    def states() -> list[str]:
        return list(Fetch.objects.order_by("pk").values_list("state", flat=True))

    given: dict[str, Any] = {"lease": longest_hold_s(), "retention": settings.WEIR_FETCH_RETENTION, "obey": False}
    given |= {"process": None, "added_grace": 0.0, "known_number": 0}  # the gate's, as that version calls it
    found = claim_before(slots=slots, **given)
    assert (len(found), states()) == (2, ["running", "reserved", "reserved", "running"])
    claim_before(slots=slots, **given)
    assert states() == ["running", "queued", "queued", "running"]
    backlog.activate(Site.objects.values_list("pk", flat=True))
    assert len(reserve_all()) == 2
    assert sorted(job.method for job in claim([*Fetch.objects.values_list("pk", flat=True)])) == ["HEAD", "POST"]


def test_no_such_fetch_succeeds_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder may be of the version before; the slot is left empty. A reserved one gives its place to any."""
    monkeypatch.setattr(cancelling, "CONFIRMED_FOR_S", 0.0)
    site_settings.set_rate(SITE, "1/s", grace=timedelta(seconds=10))
    first, second, waiting = (
        request_fetch(f"https://{SITE}/", method=method, repeatable=True) for method in ("GET", "GET", "POST")
    )
    Fetch.objects.filter(pk=waiting.pk).update(not_before=waiting.not_before + timedelta(hours=1))
    assert dispatch() == 2
    [_, running] = claim([first.pk, second.pk])
    Fetch.objects.filter(pk=waiting.pk).update(not_before=waiting.not_before)
    assert cancel(running.fetch_id)
    assert Fetch.objects.get(pk=waiting.pk).state == FetchState.QUEUED
