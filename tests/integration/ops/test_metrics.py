"""GET /metrics: who may ask, what is told, and what happens while a server is away."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from pytest_django import Settings

from tests.integration.conftest import Eventually, database_now
from tests.integration.fetching import queue_pages
from tests.integration.plans import believe_empty, scanned
from tests.waiting import in_time
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.reports import unread_status
from weir.ops import checks
from weir.ops.metrics import scrape, views
from weir.ops.metrics.parts import sites, totals, unread, work
from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit import site_settings
from weir.ratelimit.models import StartTotal
from weir.workers import broker_link, heartbeats
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import AccessToken, Fetch
from weir.workers.history.models import Total, Watermark
from weir.workers.history.rollup import LATENESS_MS, roll_up
from weir.workers.mail.models import Email
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.overview.overview import Numbers
from weir.workers.processes.models import Process
from weir.workers.recovery.models import Recovery
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import watch, watch_many
from weir.workers.webhooks.models import Endpoint

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "valkey", "token")]

TOKEN = "a-long-random-text"  # noqa: S105  of the tests
MOST_SERIES = 120
Series = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture
def token(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a token, and forget the scrapes of other tests."""
    settings.WEIR_METRICS_TOKEN = SecretStr(TOKEN)
    monkeypatch.setattr(views, "_scraper", scrape.Scraper())
    monkeypatch.setattr(broker_link, "waiting_in", lambda _queue: 0)
    yield
    broker_link.forget_outage()


def ask(authorization: str | None = f"Bearer {TOKEN}", accept: str = "", address: str = "127.0.0.1") -> Any:
    headers = {"Accept": accept} | ({} if authorization is None else {"Authorization": authorization})
    return Client(headers=headers).get("/metrics", REMOTE_ADDR=address)


def series(text: str | None = None) -> Series:
    """Return all series, by name and values of labels."""
    families = text_string_to_metric_families(ask().content.decode() if text is None else text)
    return {
        (sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


# --- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xfc"],
)
def test_without_the_token_nothing_is_told(authorization: str | None) -> None:
    """Not even to this host, and without asking any server."""
    answer = ask(authorization)
    assert (answer.status_code, answer.content) == (401, b"")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Cache-Control"] == "no-store"


def test_with_the_token_everybody_may_ask_and_nobody_may_keep_the_answer() -> None:
    """Only by GET and HEAD."""
    answer = ask(address="203.0.113.9")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    client = Client(headers={"Authorization": f"bearer {TOKEN}"})
    assert client.post("/metrics").status_code == 405
    head = client.head("/metrics")
    assert (head.status_code, head.content) == (200, b"")


def test_a_token_may_have_other_letters_than_those_of_ascii(settings: Settings) -> None:
    """Clients send it as UTF-8; a header is read as Latin-1."""
    settings.WEIR_METRICS_TOKEN = SecretStr("schlüssel")
    assert ask("Bearer " + "schlüssel".encode().decode("latin-1")).status_code == 200
    assert ask("Bearer schlüssel").status_code == 401


@pytest.mark.parametrize(
    ("embedded", "address", "status"),
    [(True, "127.0.0.1", 200), (True, "::1", 200), (True, "203.0.113.9", 404), (True, "", 404),
     (False, "127.0.0.1", 404)],
)  # fmt: skip
def test_without_a_token_only_the_embedded_servers_answer_and_only_this_host(
    embedded: bool, address: str, status: int, settings: Settings
) -> None:
    """Behind a proxy each client seems to be on this host; `make up` has none."""
    settings.WEIR_METRICS_TOKEN = SecretStr("")
    settings.WEIR_METRICS_FOR_LOOPBACK = embedded
    assert ask(None, address=address).status_code == status


# --- what is told ---------------------------------------------------------------------------------


def test_the_answer_is_in_the_format_that_is_asked_for() -> None:
    """OpenMetrics ends with # EOF; both say the same."""
    plain, openmetrics = ask(), ask(accept="application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.content.endswith(b"# EOF\n")
    families = openmetrics_families(openmetrics.content.decode())  # type: ignore[no-untyped-call]
    names = {sample.name for family in families for sample in family.samples}
    assert names == {name for name, _ in series(plain.content.decode())}


def test_processes_and_heartbeats_are_told_by_kind_and_queue() -> None:
    """A kind without a process has a 0, for alarms; a queue without a heartbeat is infinitely late."""
    heartbeats.beat("weir.fetch")
    Process.objects.create(kind="fetcher", name="fetcher@host", host="host", pid=7)
    old = database_now() - timedelta(minutes=1)
    Process.objects.create(kind="fetcher", name="fetcher.2@host", host="host", pid=8, turned_at=old)
    found = series()
    assert 0 <= found["weir_heartbeat_age_seconds", ("weir.fetch",)] < 10
    assert found["weir_heartbeat_age_seconds", ("weir.mail",)] == float("inf")
    assert found["weir_processes", ("fetcher", "alive")] == 1
    assert found["weir_processes", ("fetcher", "silent")] == 1
    assert found["weir_processes", ("beat", "alive")] == 0
    assert found["weir_messages_waiting", ("weir.fetch",)] == 0


def test_a_process_that_was_replaced_is_told_no_more() -> None:
    """After a kill, its successor has its name: an alarm on silent processes ends."""
    old = database_now() - timedelta(minutes=1)
    Process.objects.create(kind="fetcher", name="fetcher@host", host="host", pid=7, turned_at=old)
    Process.objects.create(kind="fetcher", name="fetcher@host", host="host", pid=8)
    found = series()
    assert (found["weir_processes", ("fetcher", "alive")], found["weir_processes", ("fetcher", "silent")]) == (1, 0)


def test_each_number_of_work_stands_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two of the numbers are the same here."""
    numbers = Numbers(*range(1, len(Numbers._fields) + 1))
    monkeypatch.setattr(work, "count", lambda: numbers)
    found = series()
    for state in ("queued", "reserved", "running"):
        assert found["weir_fetches", (state,)] == getattr(numbers, state)
    for state in ("paused", "backed_off", "resting", "unreachable", "stalled", "halted"):
        assert found["weir_sites", (state,)] == getattr(numbers, state)
    for state in ("pending", "sending", "unknown"):
        assert found["weir_emails", (state,)] == getattr(numbers, state)
    assert found["weir_effects", ("unknown",)] == numbers.unknown_effects
    assert found["weir_effects_oldest_seconds", ("pending",)] == numbers.oldest_pending_effect_s
    assert found["weir_emails_oldest_seconds", ("pending",)] == numbers.oldest_pending_s
    assert found["weir_emails_oldest_seconds", ("unknown",)] == numbers.oldest_unknown_s
    assert found["weir_fetches_oldest_due_seconds", ()] == numbers.oldest_due_s


def failing_and_paused_watches() -> None:
    """Make one that fails, one that is paused, one that has been due for two minutes, and one more."""
    late = database_now() - timedelta(minutes=2)
    states: list[dict[str, Any]] = [{"error": "x", "failing_since": late}, {"next_at": None}, {"next_at": late}, {}]
    for number, state in enumerate(states):
        made = watch(f"http://a.example/{number}", every=timedelta(hours=1))
        Watch.objects.filter(pk=made.pk).update(**{"next_at": late + timedelta(hours=1), **state})


def failing_and_paused_endpoints(url: str) -> None:
    """Make one whose webhook, the fetch of the URL, is tried again, one that cannot ask, one paused, and one more."""
    states: list[dict[str, Any]] = [{}, {"error": "x"}, {"paused_at": database_now(), "error": "x"}, {}]
    first, *_ = [Endpoint.objects.create(name=str(place), url=url, **state) for place, state in enumerate(states)]
    Fetch.objects.filter(url=url).update(endpoint_id=first.pk, error="x")


def clients_without_token() -> None:
    """Make two of them, one whose token counts still, and one that was not asked for lately."""
    now, ago = database_now(), timedelta(minutes=10)
    for refresh_at, expires_at in ((now, None), (now, now - ago), (now - ago, None), (now, now + ago)):
        token = {} if expires_at is None else {"sealed": b"x", "obtained_at": now - 2 * ago, "expires_at": expires_at}
        AccessToken.objects.create(key=uuid4(), refresh_at=refresh_at, error="no", **token)


def test_work_is_counted_by_state_and_its_age_is_told() -> None:
    """Fetches, sites, watches, clients, e-mails."""
    for name in ("a.example", "b.example"):
        site_settings.set_rate(name, "1/s")
    request_fetches(["http://a.example/", "http://a.example/2", "http://b.example/"])
    Fetch.objects.filter(url="http://a.example/").update(not_before=database_now() - timedelta(minutes=5))
    site_settings.pause("b.example")
    shipping.ship(Order.objects.create(number="A-1", customer_email="a@example.com").pk)
    since = database_now() - timedelta(hours=2)
    Email.objects.update(state="unknown", claim_token=uuid4(), sending_since=since, phase="after dot", last_reply="x")
    failing_and_paused_watches()
    clients_without_token()
    failing_and_paused_endpoints("http://a.example/2")
    found = series()
    assert [found["weir_webhook_endpoints", (state,)] for state in ("failing", "paused")] == [2, 1]
    assert [found["weir_watches", (state,)] for state in ("failing", "paused")] == [1, 1]
    assert 120 <= found["weir_watches_oldest_due_seconds", ()] < 150
    assert found["weir_oauth_clients_without_token", ()] == 2
    assert found["weir_fetches", ("queued",)] == 3
    assert 300 <= found["weir_fetches_oldest_due_seconds", ()] < 330
    assert found["weir_sites", ("stalled",)] == 1
    assert found["weir_sites", ("halted",)] == 1
    assert found["weir_emails", ("unknown",)] == 1
    assert 7_200 <= found["weir_emails_oldest_seconds", ("unknown",)] < 7_230
    assert found["weir_emails_oldest_seconds", ("pending",)] == 0


def test_unread_numbers_tell_their_trust_and_what_waits() -> None:
    """A delta in Redis waits until the next flush."""
    inbox.notify(1, "news", "Hello")
    flush.flush_sealed()
    inbox.notify_many([1, 2], "news", "Hello")
    found = series()
    assert found["weir_unread_trusted", ()] == 1
    assert found["weir_unread_deltas_waiting", ()] == 2
    assert found["weir_unread_repaired_users_total", ()] == 0
    assert found["weir_unread_scan_progress_ratio", ()] >= 0


def test_starts_out_of_time_are_counted_before_there_is_one() -> None:
    """Of all sites, including those that were deleted since."""
    assert series()["weir_starts_out_of_time_total", ()] == 0
    StartTotal.objects.create(out_of_time=7)
    views._scraper = scrape.Scraper()
    assert series()["weir_starts_out_of_time_total", ()] == 7


def test_deltas_that_may_be_lost_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alarm uses this number."""
    seen = replace(unread_status(), trusted=False)
    monkeypatch.setattr(unread, "unread_status", lambda: seen)
    assert series()["weir_unread_trusted", ()] == 0


def test_an_old_snapshot_and_the_connections_are_told(
    other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """The age of a transaction that another session keeps open."""
    other_connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    other_connection.execute("SELECT 1")
    eventually(lambda: series()["weir_database_oldest_snapshot_seconds", ()] >= 0.05, "the snapshot to age")
    found = series()
    assert 2 <= found["weir_database_connections", ()] <= found["weir_database_connections_max", ()]


def test_a_transaction_that_wrote_keeps_dead_rows_without_a_snapshot(
    other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """It is between two statements, like that of a client that has been forgotten."""
    other_connection.execute("SELECT pg_current_xact_id()")
    eventually(lambda: series()["weir_database_oldest_snapshot_seconds", ()] >= 0.05, "the transaction to age")


def test_a_closed_gate_and_a_recovery_are_told() -> None:
    """Nothing is sent meanwhile, and afterwards a person has to look."""
    assert ("weir_recovery_age_seconds", ()) not in series()
    KnownTimeline.objects.update(closed_because="It went back.")
    try:
        assert _anew()["weir_recovery_age_seconds", ()] == 0
    finally:
        KnownTimeline.objects.update(closed_because="")
    Recovery.objects.create(since=timezone.now(), why="It went back.", who="test", sites=1, emails=2)
    Recovery.objects.update(ended_at=database_now() - timedelta(minutes=5))
    assert 299 < _anew()["weir_recovery_age_seconds", ()] < 330


def test_named_sites_have_series_of_their_own_and_no_others(settings: Settings) -> None:
    """By the spelling under which they are stored; at most a hundred."""
    site_settings.set_rate("a.example", "1/s")
    site_settings.set_rate("b.example", "1/s")
    queue_pages(3)
    site_settings.pause("a.example")
    settings.WEIR_METRICS_SITES = ["A.example", "missing.example", "no/site"]
    found = {key: value for key, value in series().items() if key[0].startswith("weir_site_")}
    assert found.pop(("weir_site_first_due_seconds", ("a.example",))) >= 0
    assert found == {("weir_site_queued_fetches", ("a.example",)): 3, ("weir_site_held", ("a.example",)): 1}
    assert [error.id for error in checks.metrics_sites_are_sites()] == ["weir.E018"]
    settings.WEIR_METRICS_SITES = [f"{number}.example" for number in range(101)]
    assert [error.id for error in checks.metrics_sites_are_sites()] == ["weir.E018"]
    assert len(sites.names()) == 100


# --- a server that is away, and many who ask ------------------------------------------------------


def test_a_part_that_hangs_is_left_out_after_a_second(other_connection: psycopg.Connection[Any]) -> None:
    """The others are told, and which one is missing."""
    other_connection.execute("LOCK TABLE weir_notifications_doubt")
    began_at = time.monotonic()
    found = series()
    took_s = time.monotonic() - began_at
    assert took_s >= 1
    in_time(took_s < 5, "the other parts")
    # The query that counts all work reads doubts, too.
    failed = {labels[0] for (name, labels), value in found.items() if name == "weir_scrape_errors" and value}
    assert failed == {"work", "unread"}
    assert found["weir_heartbeat_age_seconds", ("weir.fetch",)]
    assert ("weir_unread_trusted", ()) not in found


def test_a_database_that_is_away_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Redis knows is told, and the parts that need the database are not tried one by one."""
    tries = []

    def refused() -> None:
        tries.append(1)
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", refused)
    began_at = time.monotonic()
    found = series()
    in_time(time.monotonic() - began_at < 1, "what needs no PostgreSQL")
    assert found["weir_unread_deltas_waiting", ()] == 0
    errors = {labels[0]: value for (name, labels), value in found.items() if name == "weir_scrape_errors"}
    assert {name for name, failed in errors.items() if not failed} == {"messages", "deltas"}
    assert len(tries) == 1


def test_a_broker_that_is_away_takes_nothing_else_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a Redis that does not return its deltas."""

    def unreachable(*_arguments: object) -> None:
        raise broker_link.BrokerUnreachable("away")

    def unread_unreachable() -> None:
        raise counters.RedisUnreachable("away")

    monkeypatch.setattr(broker_link, "waiting_in", unreachable)
    monkeypatch.setattr(counters, "waiting", unread_unreachable)
    found = series()
    assert found["weir_scrape_errors", ("messages",)] == 1
    assert found["weir_scrape_errors", ("deltas",)] == 1
    assert found["weir_scrape_errors", ("work",)] == 0
    assert ("weir_messages_waiting", ("weir.fetch",)) not in found


def test_a_scrape_is_given_again_for_five_seconds_and_one_thread_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that comes while another one asks gets the last answer, or learns that there is none."""
    asked, go_on = threading.Event(), threading.Event()
    calls = []

    def slow() -> scrape.Scrape:
        calls.append(1)
        asked.set()
        go_on.wait(30)
        return scrape.Scrape(at=time.monotonic())

    monkeypatch.setattr(scrape, "scrape", slow)
    scraper = scrape.Scraper()
    thread = threading.Thread(target=scraper.scrape)
    thread.start()
    try:
        assert asked.wait(10)
        with pytest.raises(scrape.Busy):
            scraper.scrape()
        monkeypatch.setattr(views, "_scraper", scraper)
        assert ask().status_code == 503
    finally:
        go_on.set()
        thread.join()
    first = scraper.scrape()
    assert scraper.scrape() is first
    assert len(calls) == 1
    monkeypatch.setattr(scrape, "FRESH_S", 0.0)
    assert scraper.scrape() is not first


@pytest.mark.parametrize(("age_s", "is_given"), [(4.0, True), (6.0, False)])
def test_a_scrape_is_good_for_five_seconds(age_s: float, is_given: bool) -> None:
    """An older one is replaced."""
    scraper = scrape.Scraper()
    scraper._last = old = scrape.Scrape(at=time.monotonic() - age_s)
    assert (scraper.scrape() is old) == is_given


def test_while_another_asks_an_old_scrape_is_given_for_fifteen_seconds() -> None:
    """Not for longer: while a server hangs, old numbers would look like new ones."""
    scraper = scrape.Scraper()
    with scraper._asking:
        scraper._last = old = scrape.Scrape(at=time.monotonic() - 13)
        assert scraper.scrape() is old
        scraper._last = scrape.Scrape(at=time.monotonic() - 16)
        with pytest.raises(scrape.Busy):
            scraper.scrape()


def test_after_five_seconds_no_other_part_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that each take a second would together take longer than Prometheus waits; what was read is told."""
    now = [0.0]

    def takes(seconds: float) -> Any:
        def ask() -> list[Metric]:
            now[0] += seconds
            return []

        return ask

    waits_s = {"first": 4.5, "second": 1.0, "third": 1.0}
    parts = [scrape.ScrapedPart(name=name, ask=takes(seconds), of_database=False) for name, seconds in waits_s.items()]
    monkeypatch.setattr(scrape, "parts", lambda: parts)
    monkeypatch.setattr(scrape, "time", SimpleNamespace(monotonic=lambda: now[0]))
    errors = {sample.labels["part"]: sample.value for sample in scrape.scrape().families[-1].samples}
    assert errors == {"first": 0, "second": 0, "third": 1}


# --- totals ---------------------------------------------------------------------------------------

REASONS = (  # as the function weir_history_failure_reason returns them
    "refused", "server error", "redirect", "forbidden", "robots.txt", "timeout", "dns", "tls", "connection refused",
    "too large", "bad answer", "connection", "fetcher lost", "internal", "invalid URL", "other",
)  # fmt: skip
BOUNDS = [*(f"{bound:g}" for bound in LATENESS_MS), "inf"]  # as PostgreSQL writes them
ALL_TOTALS: dict[tuple[str, str], int] = {
    **{("fetches_ended", outcome): 10 for outcome in ("done", "failed", "cancelled")},
    **{("fetch_failures", reason): 2 for reason in REASONS},
    **{("fetch_lateness", bound): 1 for bound in BOUNDS},
    ("fetch_lateness_sum_us", ""): 2_500_000,
    **{("slots", fate): 5 for fate in ("used", "given back", "missed", "void", "unreported")},
    ("slots_allowed", ""): 100,
    **{("emails_ended", outcome): 3 for outcome in ("sent", "failed", "unknown", "expired", "suppressed", "bounced")},
    **{("emails_sent", kind): number for kind, number in {"order.shipped": 2, "other": 1}.items()},
    ("unread_flushed", ""): 7,
}


def test_totals_become_counters_and_a_histogram() -> None:
    """Bounds are seconds, and each bucket has all that are below it."""
    samples = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in totals.families(ALL_TOTALS, ["order.shipped", "never.sent", "a" * 41])
        for sample in family.samples
    }
    assert samples["weir_fetches_ended_total", ("done",)] == 10
    assert samples["weir_slots_total", ("given_back",)] == 5
    assert samples["weir_slots_allowed_total", ()] == 100
    assert samples["weir_unread_flushed_users_total", ()] == 7
    assert set(totals.BOUNDS_MS) <= set(LATENESS_MS)
    bounds = ("0.001", "0.005", "0.01", "0.05", "0.1", "0.5", "1", "5", "+Inf")
    buckets = [samples["weir_fetch_lateness_seconds_bucket", (bound,)] for bound in bounds]
    assert buckets == [1, 3, 4, 6, 7, 9, 10, 12, 13]
    assert samples["weir_fetch_lateness_seconds_count", ()] == 13
    assert samples["weir_emails_ended_total", ("expired",)] == 3
    assert samples["weir_emails_ended_total", ("other",)] == 6
    sent = {labels: value for (name, labels), value in samples.items() if name == "weir_emails_sent_total"}
    assert sent == {("order.shipped",): 2, ("never.sent",): 0, ("other",): 1}
    assert samples["weir_fetch_lateness_seconds_sum", ()] == 2.5


def test_what_has_not_happened_yet_is_told_as_0() -> None:
    """Prometheus would not see the increase from a missing series to its first value."""
    found = series()
    assert found["weir_slots_total", ("missed",)] == 0
    assert found["weir_emails_ended_total", ("unknown",)] == 0
    assert found["weir_fetch_lateness_seconds_bucket", ("+Inf",)] == 0


def test_the_rollup_writes_the_totals_and_tells_how_far_it_is() -> None:
    """Before its first run there is no age; if the clock was set back, it is how long the rollup has to wait."""
    assert ("weir_history_age_seconds", ()) not in series()
    roll_up()
    Total.objects.create(series="fetches_ended", label="done", value=12)
    found = dict(_anew())
    assert found["weir_fetches_ended_total", ("done",)] == 12
    assert 0 <= found["weir_history_age_seconds", ()] < 120
    Watermark.objects.update(rolled_until=database_now() + timedelta(hours=1))  # the clock was set back
    assert 3480 < _anew()["weir_history_age_seconds", ()] <= 3600


def _anew() -> Series:
    views._scraper = scrape.Scraper()
    return series()


def test_there_are_at_most_so_many_series() -> None:
    """With all totals and all that can be known of unread numbers; each named site adds three."""
    Total.objects.bulk_create(Total(series=name, label=label, value=n) for (name, label), n in ALL_TOTALS.items())
    roll_up()
    inbox.notify(1, "news", "Hello")
    flush.flush_sealed()
    reconcile.run_pass()
    found = series()
    assert found["weir_fetch_failures_total", ("robots.txt",)] == 2
    assert 90 <= len(found) <= MOST_SERIES


def test_nothing_is_read_from_end_to_end() -> None:
    """Rows are found by indexes, whatever the statistics."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_fetches_robotsfile (origin, site_id, state, rules, error, refresh_at, expires_at) "
            "SELECT 'http://' || n, 1, 'allowed', '', '', now(), now() + interval '1 hour' "
            "FROM generate_series(1, 20000) AS n"
        )
        cursor.execute(
            "INSERT INTO weir_throttled_postponedtask (site, task, signature, max_wait, publications) "
            "SELECT 'site.example', 'task', '{}', 1, 0 FROM generate_series(1, 20000)"
        )
    watch_many([f"http://a.example/{number}" for number in range(5_000)], every=timedelta(hours=1))
    believe_empty("weir_throttled_postponedtask")
    for name in ("unreachable_robots", "postponed_tasks", "watches_now"):
        assert scanned("weir.ops", name, {"most": 10}) <= {"weir_fetches_accesstoken"}, "which has a row for a client"
