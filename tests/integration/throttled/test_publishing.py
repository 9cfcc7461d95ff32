"""Publishing sends postponed tasks out in their order, no more than can start soon, and loses none."""

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, NoReturn

import psycopg
import pytest
from celery.app.task import Context
from celery.signals import task_revoked, task_unknown
from django.db import connection, transaction
from django.db.models import F
from kombu.utils import json
from structlog.testing import capture_logs

from tests.integration.conftest import InThreads, database_now
from tests.integration.plans import believe_empty, rows_read
from tests.integration.throttled import one_worker
from tests.integration.throttled.one_worker import (
    SITE,
    Broker,
    arguments,
    close_site,
    expire_leases,
    open_site,
    postponed,
    work,
)
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.round_trips import RoundTrips
from weir.ratelimit.sites import create_sites
from weir.workers import broker_link
from weir.workers.processes.models import Process
from weir.workers.throttled import postponing, publishing, tasks
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.publishing import publish_due

pytestmark = pytest.mark.usefixtures("broker")

SLOW = "1/s"
HOUR = timedelta(hours=1)
PARAMETERS = {
    "lookahead": 2.6,
    "beside_fetches": 0.5,
    "added_grace": 0.0,
    "delivery": 30.0,
    "most": 200,
    "batch": 500,
    "sites": [SITE],
}


def waiting(count: int, *, site: str = SITE, max_wait: float = 10.0) -> None:
    """Let so many tasks wait at a site, numbered from 0; their ids do not tell their order."""
    options = {"task_id": "id", "headers": None, "retries": 0}
    signature = json.dumps({"task": "tests.plain", "args": ["number"], "kwargs": {}, "options": options})
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_throttled_postponedtask (site, task, signature, max_wait, publications, not_before)
            SELECT %s, 'tests.plain', replace(%s, '"number"', n::text), %s, 0, %s + n * interval '1 millisecond'
            FROM generate_series(%s - 1, 0, -1) AS n
            """,
            [site, signature, max_wait, database_now() - HOUR, count],
        )


def refused(site: str, _max_wait: float, **_options: object) -> NoReturn:
    """Stand in for `throttle` at a site that other processes have just reserved."""
    raise slots.SlotTooFar(site, 60)


def sent(broker: Broker) -> list[Any]:
    """Return the first argument of each message that waits in the broker."""
    return [message.body[0][0] for message in broker.messages]


def put_off_until_due() -> None:
    """End every pause."""
    PostponedTask.objects.update(not_before=F("not_before") - HOUR)


# --- how many, and in which order ---------------------------------------------------------------------------------


def test_only_those_go_out_that_can_start_soon_in_their_order(broker: Broker) -> None:
    """Of many that wait for a slow site, those of the next 2.6 seconds; and no more while these have not started."""
    site_settings.set_rate(SITE, SLOW)
    waiting(50)
    assert publish_due() == 3
    assert sent(broker) == [0, 1, 2]
    assert [publish_due() for _ in range(3)] == [0, 0, 0]
    assert work(broker.next()) == "SUCCESS"
    Site.objects.update(next_start=F("next_start") - timedelta(seconds=1))
    assert publish_due() == 1
    assert sent(broker) == [1, 2, 3]


def test_fewer_go_out_where_workers_are_far_from_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as can start soon by what the workers then reserve: each adds its round trips to its own run."""
    site_settings.set_rate(SITE, "10/s")
    waiting(50)
    Process.objects.create(kind="fetcher", name="far@away", pid=1, round_trip_s=0.1)
    published = publish_due()
    monkeypatch.setattr(RoundTrips, "expected_s", lambda _round_trips: 0.1)
    ids = [slots.reserve(SITE, max_wait=60).slots[0].id for _ in range(published + 1)]
    first, *_, last, next_one = [Slot.objects.get(pk=pk).start_time for pk in ids]
    assert last - first <= timedelta(seconds=publishing.LOOKAHEAD + 3 * 0.1) < next_one - first


def test_what_a_worker_holds_takes_its_room_by_its_slot(broker: Broker) -> None:
    """It has reserved at the site, or is about to, so it is not counted a second time."""
    site_settings.set_rate(SITE, SLOW)
    waiting(50)
    assert publish_due() == 3
    for message in broker.messages:
        assert postponing.take(message.headers[postponing.HEADER][0], 10.0)
    assert publish_due() == 3


def test_all_go_out_in_the_course_of_time_and_start_in_their_order(broker: Broker) -> None:
    """First in, first out: tick by tick until nothing waits."""
    site_settings.set_rate(SITE, "40/s", grace=timedelta(milliseconds=80))
    numbers = list(range(30))
    postponed(broker, *numbers)
    while PostponedTask.objects.exists():
        publish_due()
        while broker.messages:
            assert work(broker.next()) == "SUCCESS"
    assert arguments() == numbers


def test_a_task_goes_out_only_when_it_would_not_wait_longer_than_it_may() -> None:
    """With a short `max_wait` a worker would only postpone it again; and no later task goes before it."""
    close_site(1)
    waiting(1, max_wait=0.2)
    waiting(1, max_wait=10.0)
    assert publish_due() == 0
    PostponedTask.objects.filter(max_wait=0.2).update(max_wait=1.5)
    assert publish_due() == 2


@pytest.mark.parametrize("stop", [lambda: site_settings.pause(SITE), lambda: site_settings.back_off(SITE, 60)])
@pytest.mark.parametrize(("rate", "burst"), [("10/s", 1), ("1/10s", 10)])
def test_nothing_goes_out_to_a_site_that_is_closed(rate: str, burst: int, stop: Any) -> None:
    """A pause or a back-off holds for postponed tasks; when it ends, they go out."""
    site_settings.set_rate(SITE, rate, burst=burst)
    waiting(3)
    stop()
    assert publish_due() == 0
    open_site()
    assert publish_due() == 3


def test_a_burst_goes_out_together() -> None:
    """What may start at once after a quiet time is published at once."""
    site_settings.set_rate(SITE, "1/10s", burst=4)
    waiting(10)
    assert publish_due() == 4


def test_each_site_has_its_own_room() -> None:
    """A site with ten thousand tasks keeps none of another site's back."""
    site_settings.set_rate("slow.example", "1/h")
    slots.reserve("slow.example")
    site_settings.set_rate("other.example", SLOW)
    waiting(20, site="slow.example")
    waiting(20)
    waiting(20, site="other.example")
    publish_due()
    assert set(PostponedTask.objects.exclude(published_at=None).values_list("site", flat=True)) == {
        SITE,
        "other.example",
    }
    assert PostponedTask.objects.exclude(published_at=None).filter(site="other.example").count() == 3


def test_a_large_batch_goes_out_in_portions(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one statement takes goes out in one call, in order."""
    monkeypatch.setattr(publishing, "BATCH", 4)
    waiting(10)
    assert publish_due() == 9
    assert sent(broker) == list(range(9))


@pytest.mark.parametrize("batch", [1, 3, 500])
def test_a_tick_reckons_each_site_once(batch: int, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sites there are: all get their turn in one tick, in portions of sites and of tasks."""
    monkeypatch.setattr(publishing, "BATCH", batch)
    monkeypatch.setattr(publishing, "SITES_A_STATEMENT", 4, raising=False)
    read: list[int] = []
    publish = publishing.PUBLISH

    def counted(**parameters: Any) -> list[Any]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")  # so few rows are one page, as well read whole
            read.append(rows_read("weir.workers.throttled", "publish", parameters, "weir_ratelimit_site"))
        return publish(**parameters)

    monkeypatch.setattr(publishing, "PUBLISH", counted)
    for number in range(21):
        site_settings.set_rate(f"site-{number}.example", SLOW)
        waiting(1, site=f"site-{number}.example")
    assert publish_due() == 21
    assert len(broker.messages) == 21
    assert sum(read) <= 2 * 21 * (5 if batch == 1 else 1)


def test_publishers_at_once_send_nothing_twice_and_no_more_than_there_is_room_for(
    broker: Broker, in_threads: InThreads
) -> None:
    """Beat may double a tick."""
    site_settings.set_rate(SITE, "3/s")
    waiting(100)
    in_threads(4, lambda _number: publish_due())
    alone = PostponedTask.objects.exclude(published_at=None).count()
    assert sorted(sent(broker)) == list(range(alone))
    PostponedTask.objects.update(published_at=None, lease_until=None)
    assert publish_due() == alone


def test_a_site_at_which_another_publisher_is_at_work_is_left_to_it(other_connection: psycopg.Connection[Any]) -> None:
    """The publisher that has locked the first task of a site has the site, and others do not wait for it."""
    site_settings.set_rate("other.example", SLOW)
    waiting(10)
    waiting(10, site="other.example")
    first = PostponedTask.objects.filter(site=SITE).order_by("not_before")[0]
    other_connection.execute("SELECT id FROM weir_throttled_postponedtask WHERE id = %s FOR UPDATE", [first.pk])
    assert publish_due() == 3
    assert not PostponedTask.objects.filter(site=SITE).exclude(published_at=None).exists()
    other_connection.rollback()
    assert publish_due() > 0


# --- what is lost -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes", [0, 2])
def test_without_a_broker_nothing_is_lost(takes: int, broker: Broker) -> None:
    """What the broker did not take waits again, at its place, and goes out when it is back."""
    waiting(5)
    broker.takes = takes
    assert publish_due() == takes
    assert PostponedTask.objects.waiting().count() == 5 - takes
    assert set(PostponedTask.objects.waiting().values_list("publications", flat=True)) == {0}
    broker.takes = None
    assert publish_due() == 0, "this process leaves the broker alone for a while"
    broker_link.forget_outage()
    assert publish_due() == 5 - takes
    assert sent(broker) == [0, 1, 2, 3, 4]


def test_a_message_that_is_lost_is_sent_again(broker: Broker) -> None:
    """After the stated time, not before; and it is told."""
    waiting(1)
    publish_due()
    broker.messages.clear()
    task = PostponedTask.objects.get()
    assert task.lease_until is not None
    assert timedelta(seconds=25) < task.lease_until - database_now() <= timedelta(seconds=publishing.DELIVERY)
    assert publish_due() == 0
    expire_leases()
    with capture_logs() as logs:
        assert publish_due() == 1
    assert [(log["event"], log["tasks"], log["workers_lost"]) for log in logs] == [
        ("postponed_tasks_published_again", {"tests.plain": 1}, 0)
    ]
    assert work(broker.next()) == "SUCCESS"


def test_a_task_that_never_arrives_is_published_ever_more_rarely() -> None:
    """It keeps its place once; then it makes room for others for a minute, two, four ... an hour at most."""
    waiting(1)
    publish_due()
    expire_leases()
    pauses = []
    for _ in range(9):
        assert publish_due() == 1
        expire_leases()
        assert publish_due() == 0
        pauses.append(round((PostponedTask.objects.get().not_before - database_now()).total_seconds()))
        put_off_until_due()
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert PostponedTask.objects.get().publications == 10


def test_a_task_that_arrives_at_last_starts_and_is_forgiven(broker: Broker) -> None:
    """A worker that holds it ends the counting."""
    waiting(1)
    for _ in range(2):
        publish_due()
        expire_leases()
    publish_due()
    put_off_until_due()
    close_site(60)
    publish_due()
    assert work(broker.next()) == "IGNORED"
    assert PostponedTask.objects.get().publications == 0


def test_a_message_that_was_only_late_starts_the_task_once(broker: Broker) -> None:
    """However many copies of it arrive."""
    waiting(1)
    publish_due()
    for _ in range(2):
        expire_leases()
        publish_due()
        put_off_until_due()
    assert len(broker.messages) == 2
    assert [work(broker.next()) for _ in range(2)] == ["SUCCESS", "IGNORED"]


def test_a_late_message_may_start_a_task_that_waits_again(broker: Broker) -> None:
    """The row is there, no worker holds it, and the slot is free: a start needs no more."""
    waiting(1)
    publish_due()
    expire_leases()
    publishing._take_back_lost()
    assert PostponedTask.objects.waiting().count() == 1
    assert work(broker.next()) == "SUCCESS"
    assert publish_due() == 0


def test_a_message_that_was_taken_though_the_broker_seemed_down_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was lost, the worker was faster than the publisher: what it has done to the row stays."""
    waiting(2)
    publish = Broker.publish

    def taken_and_given_back(self: Broker, body: Any, **options: Any) -> None:
        publish(self, body, **options)
        assert work(self.next()) == "IGNORED"
        raise OSError("the answer is lost")

    monkeypatch.setattr(Broker, "publish", taken_and_given_back)
    monkeypatch.setattr("weir.workers.throttled.waiting.throttle", refused)
    assert publish_due() == 0
    assert list(PostponedTask.objects.values_list("publications", "published_at")) == [(0, None)] * 2


def test_a_row_that_cannot_be_sent_hinders_no_other(broker: Broker) -> None:
    """It is logged, and tried again like one whose message was lost."""
    waiting(3)
    broken = PostponedTask.objects.order_by("not_before")[0]
    PostponedTask.objects.filter(pk=broken.pk).update(signature="no JSON")
    with capture_logs() as logs:
        publish_due()
    assert sent(broker) == [1, 2]
    assert [(log["event"], log["row"]) for log in logs] == [("postponed_task_not_published", broken.pk)]
    assert PostponedTask.objects.filter(pk=broken.pk).exists()


# --- what workers throw away --------------------------------------------------------------------------------------


def test_a_task_that_a_worker_does_not_know_takes_no_room_from_others(broker: Broker) -> None:
    """The worker says so: the next tick publishes the next, and the unknown one ever more rarely."""
    site_settings.set_rate(SITE, SLOW)
    waiting(4)
    PostponedTask.objects.update(task="shop.tasks.removed")
    tasks_sent = []
    for _ in range(6):
        publish_due()
        tasks_sent += sent(broker)
        while broker.messages:
            message = SimpleNamespace(headers=broker.next().headers)
            task_unknown.send(sender=None, message=message, exc=None, name="shop.tasks.removed", id="id")
    assert sorted(tasks_sent) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert PostponedTask.objects.filter(publications=2, not_before__gt=database_now()).count() == 4


def test_a_new_message_of_a_task_that_a_worker_does_not_know_is_celerys_affair(broker: Broker) -> None:
    """There is no row to look after."""
    one_worker.plain.delay(7)
    task_unknown.send(sender=None, message=SimpleNamespace(headers=broker.next().headers), exc=None, name="", id="")
    assert not PostponedTask.objects.exists()


def test_a_revoked_task_is_not_published_again(broker: Broker) -> None:
    """A worker that throws its message away tells the row, which goes."""
    waiting(2)
    publish_due()
    message = broker.next()
    request = Context({**message.headers, "args": [], "kwargs": {}})
    task_revoked.send(sender=None, request=request, terminated=False, signum=None, expired=False)
    assert [task.pk for task in PostponedTask.objects.all()] == [broker.next().headers[postponing.HEADER][0]]


def test_an_expired_task_is_published_once_more_and_forgotten(broker: Broker) -> None:
    """So that a worker can tell Celery that it has expired; it does not start, whatever that worker's clock says."""
    close_site(60)
    one_worker.plain.apply_async((7,), expires=3_600)
    one_worker.plain.apply_async((8,), expires=3_600)
    assert [work(broker.next()) for _ in range(2)] == ["IGNORED"] * 2
    first, second = PostponedTask.objects.order_by("pk")
    assert first.expires_at is not None
    assert abs(first.expires_at - database_now() - HOUR) < timedelta(minutes=1)
    PostponedTask.objects.filter(pk=first.pk).update(expires_at=F("expires_at") - 2 * HOUR)
    open_site()
    assert publish_due() == 2
    assert [task.pk for task in PostponedTask.objects.all()] == [second.pk]
    assert [work(broker.next()) for _ in range(2)] == ["IGNORED", "SUCCESS"]
    assert arguments() == [8]


def test_a_time_of_expiry_that_utc_has_not_is_never(broker: Broker) -> None:
    """The row is there to be read by anybody."""
    close_site(60)
    far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12)))
    for number, expires in enumerate((far.replace(tzinfo=UTC), far)):
        one_worker.plain.apply_async((number,), expires=expires.replace(tzinfo=UTC))
        message = broker.next()
        message.headers["expires"] = expires.isoformat()
        assert work(message) == "IGNORED"
    assert list(PostponedTask.objects.order_by("pk").values_list("expires_at", flat=True)) == [
        far.replace(tzinfo=UTC), None,
    ]  # fmt: skip


def test_the_scheduled_task_publishes_and_is_not_the_parent(broker: Broker) -> None:
    """The scheduled task publishes; a task that no other task had sent is the root of its own tree, as in a retry."""
    [row] = postponed(broker, 7)
    task_id = json.loads(PostponedTask.objects.get(pk=row).signature)["options"]["task_id"]
    tasks.publish_postponed.delay()
    assert work(broker.next()) == "SUCCESS"
    message = broker.next()
    assert message.about == ("tests.plain", [7])
    assert [message.headers[name] for name in ("id", "root_id", "parent_id")] == [task_id] * 3


# --- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", ["none", "of the empty table", "of these tasks"])
def test_ten_thousand_tasks_of_a_slow_site_are_not_looked_at(statistics: str) -> None:
    """A tick reads a few rows of the table, whatever the number of tasks that wait; nothing else is written."""
    site_settings.set_rate(SITE, SLOW)
    waiting(10_000)
    publish_due()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_throttled_postponedtask'::regclass")
        if statistics == "of these tasks":
            cursor.execute("ANALYZE weir_throttled_postponedtask")
    if statistics == "of the empty table":
        believe_empty("weir_throttled_postponedtask")
    for name, parameters in (
        ("waiting_sites", {"first": "", "most": 500}),
        ("publish", PARAMETERS),
        ("take_back", {"batch": 500, "pause": 60.0, "longest": 3600.0}),
    ):
        assert rows_read("weir.workers.throttled", name, dict(parameters), "weir_throttled_postponedtask") < 30, name


@pytest.mark.parametrize("has_statistics", [False, True])
def test_missing_sites_are_looked_for_at_the_next_sites_only(has_statistics: bool) -> None:
    """However many tasks wait, at however many sites: two looks at an index for each site."""
    names = [f"site-{number:04}.example" for number in range(2_000)]
    create_sites(names)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_throttled_postponedtask (site, task, signature, max_wait, publications)
            SELECT name, 'tests.plain', '{}', 10, 0 FROM generate_series(1, 10), unnest(%s::text[]) AS name
            """,
            [names],
        )
        for table in ("weir_throttled_postponedtask", "weir_ratelimit_site"):
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])
            if has_statistics:
                cursor.execute(f"ANALYZE {table}")
    for first in ("", names[1_000]):
        parameters: dict[str, object] = {"first": first, "most": 50}
        tables = ("weir_throttled_postponedtask", "weir_ratelimit_site")
        assert rows_read("weir.workers.throttled", "waiting_sites", parameters, *tables) <= 2 * 50


@pytest.mark.parametrize("has_host", [True, False])
def test_tasks_of_a_site_that_was_deleted_wait_at_the_site_of_their_host(broker: Broker, *, has_host: bool) -> None:
    """No site is deleted for them, however long they have waited: without one they would wait for ever."""
    postponed(broker, 1, 2)
    if not has_host:
        PostponedTask.objects.update(host="")
    Site.objects.filter(name=SITE).delete()
    assert publish_due() == 0
    assert Site.objects.filter(name=SITE).exists()
    assert publish_due() >= 1
    assert broker.messages
