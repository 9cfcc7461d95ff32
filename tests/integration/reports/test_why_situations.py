"""Why a fetch waits, in a table of situations, each made by the functions that make it in production.

Each row: how it is made, which answer comes first, and when that ends. `-s` prints the table. Situations that need
processes are in tests/acceptance/fetches/test_why_situations.py.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from pytest_django import Settings

from tests.integration.conftest import claim, claimed, database_now
from tests.integration.reports.remedies import check_remedy
from tests.integration.reports.test_why import process
from tests.integration.robots.conftest import known
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers import broker_link
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import Answer, Event, Failure, Job
from weir.workers.fetches.models import Fetch, RobotsFile, RobotsState
from weir.workers.fetches.on_done import unknown
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch
from weir.workers.fetches.reports.why import why
from weir.workers.fetches.robots import crawl_delays
from weir.workers.processes.models import Process
from weir.workers.schedule import MOST_UNTAKEN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITE = "a.example"
PAGE = f"http://{SITE}/page"
ORIGIN = f"http://{SITE}"


class Made(NamedTuple):
    """A fetch in a situation, and when that ends: a time, None for never, "turn" for when its turn comes."""

    fetch: int
    until: datetime | str | None


def ask(rate: str = "1/10s", **options: object) -> int:
    site_settings.set_rate(SITE, rate)
    return request_fetch(PAGE, **options).pk  # type: ignore[arg-type]


def ended(event: Callable[[Job], Event], **options: object) -> Made:
    """Fetch it once, with this end of the attempt."""
    fetch = ask("1/s", **options)
    dispatch()
    job = claimed(fetch)
    store([judge(event(job), max_body=100, chance=0.0)])
    return Made(fetch, None)


def answered(status: int) -> Callable[[Job], Event]:
    return lambda job: Answer(job=job, status_code=status, headers=(), body=b"", lateness_ms=1.0, elapsed_ms=2.0)


def refused(job: Job) -> Event:
    return Failure(job=job, error="connection refused by 192.0.2.1 port 80")


def is_done() -> Made:
    return ended(answered(200))


def is_done_and_on_done_waits() -> Made:
    made = ended(answered(200), on_done="shop.tasks.fetched")
    Fetch.objects.update(on_done_called_at=None)
    return made


def is_done_and_no_worker_knows_on_done() -> Made:
    made = ended(answered(200), on_done="shop.tasks.fetched")
    unknown.record(made.fetch, "shop.tasks.fetched")
    return made


def has_failed() -> Made:
    return ended(refused, max_attempts=1)


def is_cancelled() -> Made:
    fetch = ask()
    assert cancel(fetch)
    return Made(fetch, None)


def is_tried_again() -> Made:
    fetch, _ = ended(answered(500))
    return Made(fetch, Fetch.objects.get(pk=fetch).not_before)


def has_a_slot_ahead() -> Made:
    fetch = ask("1/s")
    dispatch()
    start = database_now() + timedelta(seconds=20)
    Slot.objects.update(start_time=start)
    return Made(fetch, start)


def message_is_lost() -> Made:
    fetch = ask("1/s")
    dispatch()
    Slot.objects.update(start_time=database_now() - timedelta(seconds=1))
    return Made(fetch, Fetch.objects.get(pk=fetch).lease_until)


def is_running() -> Made:
    fetch = ask("1/s")
    dispatch()
    Slot.objects.update(use_until=database_now() + timedelta(minutes=1))  # however busy the machine is
    claim([fetch])
    Fetch.objects.update(claimed_by=Process.objects.get(kind="fetcher").pk)
    Slot.objects.update(start_time=database_now())
    return Made(fetch, Fetch.objects.get(pk=fetch).lease_until)


def holder_is_gone() -> Made:
    made = is_running()
    Process.objects.filter(kind="fetcher").delete()
    process("fetcher")
    return made


def holder_is_silent() -> Made:
    made = is_running()
    Process.objects.filter(kind="fetcher").update(turned_at=database_now() - timedelta(seconds=9))
    return made


def is_not_due() -> Made:
    until = database_now() + timedelta(hours=1)
    return Made(ask(not_before=until), until)


def robots_is_unknown() -> Made:
    return Made(ask(), None)


def robots_is_unreachable() -> Made:
    fetch = ask()
    again = database_now() + timedelta(minutes=1)
    known(ORIGIN, RobotsState.UNREACHABLE, error="status 503", refresh_at=again, expires_at=again)
    return Made(fetch, again)


def robots_fetch_waits_for_a_pause() -> Made:
    ask()
    site_settings.pause(SITE)
    return Made(Fetch.objects.get(is_robots=True).pk, None)


def crawl_delay_is_longer_than_the_rate() -> Made:
    fetch = ask("10/s")
    known(ORIGIN, RobotsState.RULES, error="")
    RobotsFile.objects.update(crawl_delay=timedelta(seconds=30))
    crawl_delays.settle([Site.objects.get(name=SITE).pk])
    return Made(fetch, "turn")


def is_paused() -> Made:
    fetch = ask()
    site_settings.pause(SITE)
    return Made(fetch, None)


def is_paused_for_a_time() -> Made:
    fetch = ask()
    site_settings.pause(SITE, timedelta(minutes=5))
    return Made(fetch, Site.objects.get(name=SITE).paused_until)


def is_paused_for_less_than_it_is_not_due() -> Made:
    made = is_not_due()
    site_settings.pause(SITE, timedelta(minutes=5))
    return made


def is_paused_for_longer_than_it_is_not_due() -> Made:
    fetch, _ = is_not_due()
    site_settings.pause(SITE, timedelta(hours=2))
    return Made(fetch, Site.objects.get(name=SITE).paused_until)


def is_paused_for_ever_and_not_due() -> Made:
    fetch, _ = is_not_due()
    site_settings.pause(SITE)
    return Made(fetch, None)


def is_backed_off_three_times() -> Made:
    fetch = ask()
    for _ in range(3):
        site_settings.back_off(SITE)
    return Made(fetch, Site.objects.get(name=SITE).backed_off_until)


def is_refused_with_a_reason() -> Made:
    fetch = ask()
    site_settings.back_off(SITE, 60, reason="it answered 403 with Retry-After: 60")
    return Made(fetch, Site.objects.get(name=SITE).backed_off_until)


def quota_is_used_up() -> Made:
    fetch = ask()
    site_settings.back_off(SITE, 5)
    site_settings.rest(SITE, 60, reason="its quota is used up (RateLimit)")
    return Made(fetch, Site.objects.get(name=SITE).backed_off_until)


def is_unreachable() -> Made:
    fetch = ask()
    site_settings.back_off(SITE, error="connection refused")
    return Made(fetch, Site.objects.get(name=SITE).backed_off_until)


def concurrency_is_full() -> Made:
    site_settings.set_rate(SITE, "1/10s", max_concurrency=1)
    first, second = request_fetches([f"{PAGE}/1", f"{PAGE}/2"])
    dispatch()
    assert Fetch.objects.get(pk=first.pk).slot_id
    return Made(second.pk, None)


def ten_are_ahead() -> Made:
    site_settings.set_rate(SITE, "1/10s")
    return Made(request_fetches([f"{PAGE}/{n}" for n in range(11)])[-1].pk, "turn")


def one_of_higher_priority_came_later() -> Made:
    fetch = ask()
    request_fetch(f"{PAGE}/other", priority=9)
    return Made(fetch, "turn")


def kind_is_missing(kind: str) -> Callable[[], Made]:
    def make() -> Made:
        Process.objects.filter(kind=kind).delete()
        return Made(ask(), None)

    return make


def kind_was_killed(kind: str) -> Callable[[], Made]:
    def make() -> Made:
        Process.objects.filter(kind=kind).update(turned_at=database_now() - timedelta(seconds=9))
        return Made(ask(), None)

    return make


def dispatch_is_silent() -> Made:
    fetch = ask()
    ago = database_now() - timedelta(seconds=30)
    Fetch.objects.update(not_before=ago, created_at=ago)
    return Made(fetch, None)


def site_is_deleted() -> Made:
    fetch = ask()
    Site.objects.all()._raw_delete("default")
    return Made(fetch, None)


def on_a_broker(monkeypatch: pytest.MonkeyPatch, messages: int | None) -> Made:
    """Stand for a broker that is away, or where so many messages wait."""

    def waiting_in(_queue: str) -> int:
        if messages is None:
            raise broker_link.BrokerUnreachable("refused")
        return messages

    monkeypatch.setattr(broker_link, "waiting_in", waiting_in)
    return Made(ask(), None)


# Each: how it is made, the first answer, words in it.
SITUATIONS: list[tuple[Callable[[], Made], str, str]] = [
    (is_done, "ended", "done with status 200"),
    (is_done_and_on_done_waits, "ended", "done with status 200"),
    (is_done_and_no_worker_knows_on_done, "ended", "done with status 200"),
    (has_failed, "ended", "failed: connection refused"),
    (is_cancelled, "ended", "cancelled"),
    (is_tried_again, "not due", "the site answered 500"),
    (has_a_slot_ahead, "slot", "It has a slot"),
    (message_is_lost, "not taken", "no fetcher has taken it"),
    (is_running, "in flight", "at fetcher@host"),
    (holder_is_gone, "holder silent", "is gone"),
    (holder_is_silent, "holder silent", "has been silent for 9"),
    (is_not_due, "not due", "It is not due yet."),
    (robots_is_unknown, "robots.txt", "is not known yet"),
    (robots_is_unreachable, "robots.txt unreachable", "status 503"),
    (robots_fetch_waits_for_a_pause, "paused", "until an operator resumes it"),
    (crawl_delay_is_longer_than_the_rate, "rate", "which robots.txt asks for"),
    (is_paused, "paused", "until an operator resumes it"),
    (is_paused_for_a_time, "paused", "is paused."),
    (is_paused_for_less_than_it_is_not_due, "not due", "It is not due yet."),
    (is_paused_for_longer_than_it_is_not_due, "paused", "is paused."),
    (is_paused_for_ever_and_not_due, "paused", "until an operator resumes it"),
    (is_backed_off_three_times, "backed off", "3 times in a row"),
    (is_refused_with_a_reason, "backed off", "and is backed off: it answered 403 with Retry-After: 60."),
    (quota_is_used_up, "resting", "a.example rests, as its quota is used up (RateLimit)."),
    (is_unreachable, "unreachable", "connection refused"),
    (concurrency_is_full, "concurrency", "allows 1 at once, and has 1"),
    (ten_are_ahead, "rate", "10 due fetches of a.example before it"),
    (one_of_higher_priority_came_later, "rate", "1 due fetch of a.example before it"),
    (kind_is_missing("fetcher"), "no fetcher", "is known"),
    (kind_was_killed("fetcher"), "no fetcher", "has been alive for 9"),
    (kind_was_killed("ticks"), "no ticks", "no slot is given out"),
    (kind_was_killed("beat"), "no beat", "nothing calls dispatch"),
    (dispatch_is_silent, "dispatch silent", "30s ago"),
    (site_is_deleted, "no site", "follows its host"),
]
OBEYED = {robots_is_unknown, robots_is_unreachable, robots_fetch_waits_for_a_pause, crawl_delay_is_longer_than_the_rate}
NAMES = [f"{number}-{kind}-{words}" for number, (_, kind, words) in enumerate(SITUATIONS)]


@pytest.fixture(autouse=True)
def _all_alive(transactional_db: None) -> None:  # noqa: ARG001  must come first
    for kind in ("fetcher", "ticks", "beat"):
        process(kind)


def check(made: Made, kind: str, words: str, name: str) -> None:
    """Compare the first answer with the row of the table, and all that is to be done with the commands."""
    found = why(made.fetch).blockers
    first = found[0]
    print(f"\n{name:42} {first.kind:22} {first.text}")
    assert (first.kind, words in first.text) == (kind, True), found
    if made.until == "turn":
        assert first.until is not None
    else:
        assert first.until == made.until
    for blocker in found:
        check_remedy(blocker)


@pytest.mark.parametrize(("make", "kind", "words"), SITUATIONS, ids=NAMES)
def test_the_first_answer_is_what_is_in_the_way(
    make: Callable[[], Made], kind: str, words: str, settings: Settings
) -> None:
    """With the time at which that ends, if it does by itself, and a command that exists."""
    settings.WEIR_OBEY_ROBOTS = make in OBEYED
    check(make(), kind, words, make.__name__)


@pytest.mark.parametrize(
    ("messages", "kind", "words"), [(None, "broker", "cannot be reached"), (MOST_UNTAKEN + 1, "fetchers behind", "501")]
)
def test_so_it_is_with_the_broker(messages: int | None, kind: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is away, or full."""
    check(on_a_broker(monkeypatch, messages), kind, words, kind)


def test_a_fetch_that_was_purged_is_not_known() -> None:
    """Its id is refused."""
    fetch, _ = is_done()
    Fetch.objects.filter(pk=fetch).delete()
    with pytest.raises(UnknownFetch):
        why(fetch)
