"""Sites are deleted where nothing needs them, and no host is asked sooner for it, whatever comes at the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, connections, transaction
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.integration.conftest import InThreads, database_now
from tests.integration.plans import rows_read
from tests.integration.robots.conftest import known
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import DeletedSite, Site
from weir.ratelimit.site_settings import SiteBusy
from weir.ratelimit.sites import LOCK, UnknownSite, create_sites
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.maintenance import deleted_sites
from weir.workers.fetches.maintenance.deleted_sites import delete, delete_idle
from weir.workers.fetches.maintenance.purge import purge
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile
from weir.workers.fetches.retrying import retry_failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SHOP, A = "shop.test", "a.shop.test"
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_DEFAULT_RATE = "100/s"
    settings.WEIR_SITE_RETENTION = 30 * 86_400.0
    monkeypatch.setattr(deleted_sites, "PATIENCE_S", 0.02)
    monkeypatch.setattr(deleted_sites, "_looked_up_to", 0)


def site(name: str = A) -> Site:
    return Site.objects.get(name=name)


def create(name: str = A, **columns: Any) -> Site:
    """Create a site as a fetch does, with these columns."""
    create_sites([name])
    Site.objects.filter(name=name).update(**columns)
    return site(name)


def ago(**time: float) -> Any:
    """Return the time so long ago, by the clock of the database."""
    return database_now() - timedelta(**time)


def fetch_at(name: str, state: FetchState = FetchState.QUEUED, **columns: Any) -> Fetch:
    fetch = request_fetch(f"https://{name}/")
    Fetch.objects.filter(pk=fetch.pk).update(state=state, **columns)
    return fetch


def command(*arguments: str) -> str:
    output = StringIO()
    call_command("sites", *arguments, stdout=output)
    return output.getvalue()


def test_a_misspelt_host_is_forgotten_with_its_robots_txt() -> None:
    """The command says so, and leaves other sites alone."""
    create("exmaple.test")
    create(SHOP)
    known("https://exmaple.test")
    known(f"https://{SHOP}")
    assert command("delete", "Exmaple.TEST") == "exmaple.test is deleted.\n"
    assert [one.name for one in Site.objects.all()] == [SHOP]
    assert [file.origin for file in RobotsFile.objects.all()] == [f"https://{SHOP}"]
    with pytest.raises(CommandError, match=r"There is no site 'exmaple\.test'"):
        command("delete", "exmaple.test")


def paused() -> None:
    site_settings.pause(A)


def backed_off() -> None:
    site_settings.back_off(A, 60)


def split() -> None:
    Site.objects.filter(name=A).update(split_until=ago(seconds=9), has_strays=True)


def recalled() -> None:
    Site.objects.filter(name=A).update(recalled_at=Now())


def queued() -> None:
    fetch_at(A)


def not_due() -> None:
    fetch_at(A, not_before=database_now() + DAY)


def running() -> None:
    fetch_at(A, FetchState.RUNNING, slot_id=1, lease_until=database_now())


def just_asked() -> None:
    Site.objects.filter(name=A).update(next_start=Now() + timedelta(minutes=5))


def just_split() -> None:
    Site.objects.filter(name=A).update(split_until=Now() + timedelta(minutes=5))


@pytest.mark.parametrize(
    ("make_busy", "said"),
    [
        (queued, "has fetches that have not ended"),
        (not_due, "has fetches that have not ended"),
        (running, "has fetches that have not ended"),
        (paused, "is paused"),
        (backed_off, "is backed off"),
        (split, "following their hosts"),
        (recalled, "just changed"),
        (just_asked, "can be deleted in [45]"),
        (just_split, "can be deleted in [45]"),
    ],
)
def test_what_is_busy_stays_and_the_refusal_says_why(make_busy: Callable[[], None], said: str) -> None:
    """Whatever needs the site, or its clock."""
    create(crawl_delay=None)
    make_busy()
    with pytest.raises(CommandError, match=f"^{A} stays: .*{said}"):
        command("delete", A)
    assert site()
    assert not DeletedSite.objects.exists()


def test_a_flag_that_no_fetch_stands_behind_keeps_no_site() -> None:
    """The backlog's flags are hints: what counts are the fetches."""
    create(due_at=database_now() + DAY)
    delete(A)
    assert not Site.objects.exists()


@pytest.mark.parametrize("slow", ["own", "default", "covering"])
def test_the_longest_of_the_intervals_that_may_count_next_is_waited_for(slow: str, settings: Settings) -> None:
    """The host's next site has a clock of its own, which knows nothing of the last start."""
    create(next_start=ago(seconds=30))
    if slow == "own":
        Site.objects.update(interval=timedelta(hours=1))
    elif slow == "default":
        settings.WEIR_DEFAULT_RATE = "1/h"
    else:
        site_settings.set_rate(SHOP, "1/h", covers_subdomains=True)
        Site.objects.update(has_strays=False, split_until=None, recalled_at=None)
    with pytest.raises(SiteBusy, match="59m"):
        delete(A)
    Site.objects.filter(name=A).update(next_start=ago(hours=2))
    delete(A)


@pytest.mark.parametrize(("name", "covers"), [(A, False), (SHOP, True), ("x.a.shop.test", False)])
def test_a_slower_site_that_gets_the_host_afterwards_keeps_its_interval(name: str, covers: bool) -> None:
    """Its clock begins an interval after the last start at the deleted site: its own name's, one below, one above."""
    last = ago(minutes=5)
    create(next_start=last)
    delete(A)
    site_settings.set_rate(name, "1/h", covers_subdomains=covers)
    assert site(name).next_start == last + timedelta(hours=1)


def test_a_site_that_exists_and_comes_to_cover_the_host_keeps_its_interval() -> None:
    """Also where it becomes slower after that."""
    last = ago(minutes=5)
    create(SHOP, is_kept=True)
    create(A, next_start=last)
    delete(A)
    site_settings.set_rate(SHOP, "1/m", covers_subdomains=True)
    site_settings.set_rate(SHOP, "1/h")
    assert site(SHOP).next_start >= last + timedelta(hours=1)


def test_a_new_site_at_a_slower_default_rate_keeps_its_interval(settings: Settings) -> None:
    """The setting may have changed since."""
    last = ago(minutes=5)
    create(next_start=last)
    delete(A)
    settings.WEIR_DEFAULT_RATE = "1/h"
    create_sites([A])
    assert site().next_start == last + timedelta(hours=1)


@pytest.mark.parametrize("covered", [False, True])
def test_an_enqueue_whose_transaction_was_open_ends_at_the_hosts_new_site(covered: bool) -> None:
    """It finds no site when it is committed, cannot start, and follows its host with the next sweep."""
    old = create()
    inserted, deleted = threading.Event(), threading.Event()

    def enqueue() -> Fetch:
        try:
            with transaction.atomic():
                fetch = request_fetch(f"https://{A}/")
                inserted.set()
                assert deleted.wait(30)
            return fetch
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(enqueue)
        assert inserted.wait(30)
        delete(A)
        deleted.set()
        fetch = late.result()
    if covered:
        site_settings.set_rate(SHOP, "100/s", covers_subdomains=True)
    fetch.refresh_from_db()
    assert (fetch.site_id, dispatch()) == (old.pk, 0)
    sweep()
    fetch.refresh_from_db()
    assert (fetch.site, fetch.site_id == old.pk) == (site(SHOP if covered else A), False)
    assert fetch.site is not None
    assert fetch.site.next_start >= DeletedSite.objects.get().last_start + parse_rate("100/s")
    assert dispatch() == 1


def test_late_fetches_follow_in_short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """More deleted sites than a look takes, with more fetches."""
    monkeypatch.setattr(deleted_sites, "NOTES_A_LOOK", 2)
    monkeypatch.setattr(deleted_sites, "FETCHES_A_LOOK", 3)
    for number in range(5):
        name = f"{number}.test"
        old = create(name)
        delete(name)
        for path in range(4):
            fetch = request_fetch(f"https://{name}/{path}")
            Fetch.objects.filter(pk=fetch.pk).update(site_id=old.pk)
    assert sum(deleted_sites.follow_late() for _ in range(3)) == 20
    assert {fetch.site for fetch in Fetch.objects.all()} == set(Site.objects.all())
    assert deleted_sites.follow_late() == 0


def test_an_answer_of_robots_txt_that_is_noted_late_does_not_count() -> None:
    """A file at a site that is gone would count as known, and no fetcher would find it."""
    old = create()
    delete(A)
    file = known(f"https://{SHOP}")
    RobotsFile.objects.update(site_id=old.pk)
    sweep()
    assert not RobotsFile.objects.filter(pk=file.pk).exists()


def test_what_ended_at_a_deleted_site_is_shown_and_retried(admin_client: Client) -> None:
    """The pages and the list bear that there is no such site; a retry makes a new one."""
    fetch = fetch_at(A, FetchState.FAILED, finished_at=database_now(), error="away")
    delete(A)
    for page in (
        reverse("admin:weir_fetches_fetch_changelist"),
        reverse("admin:weir_fetches_fetch_change", args=[fetch.pk]),
        reverse("admin:weir_ratelimit_site_changelist"),
    ):
        assert admin_client.get(page).status_code == 200
    output = StringIO()
    call_command("fetches", "list", stdout=output)
    assert "away" in output.getvalue()
    assert retry_failed(Fetch.objects.all()).queued == 1
    fetch.refresh_from_db()
    assert fetch.site == site()


def test_two_at_once_delete_it_once(in_threads: InThreads) -> None:
    """The second finds no site."""
    create()

    def one(_number: int) -> str:
        try:
            delete(A)
        except UnknownSite:
            return "unknown"
        except SiteBusy as busy:
            return str(busy)
        return "deleted"

    said = in_threads(2, one)
    assert said.count("deleted") == 1
    assert set(said) <= {"deleted", "unknown", f"{A} stays: {deleted_sites.WHY['locked']}"}
    assert DeletedSite.objects.count() == 1


def test_a_row_that_another_transaction_has_locked_is_not_waited_for(
    other_connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dispatch may be at work with it: the command says so, purge leaves it to the next time."""
    monkeypatch.setattr(deleted_sites, "MOST_TRIES", 2)
    create(created_at=ago(days=40))
    other_connection.execute("SELECT FROM weir_ratelimit_site FOR NO KEY UPDATE")
    with pytest.raises(SiteBusy, match="other transactions"):
        delete(A)
    assert delete_idle() == 0
    other_connection.rollback()
    assert delete_idle() == 1


def test_deleting_splitting_reserving_and_enqueueing_at_once_end_well(in_threads: InThreads) -> None:
    """None waits for the other for ever, and every fetch is at the site of its host in the end."""
    rounds = 12

    def work(number: int) -> None:
        for turn in range(rounds):
            with suppress(UnknownSite, SiteBusy):
                match number:
                    case 0:
                        delete(A)
                    case 1:
                        site_settings.set_rate(SHOP, "100/s", covers_subdomains=turn % 2 == 0)
                    case 2:
                        slots.reserve(A)
                    case 3:
                        delete_idle()
                    case _:
                        with transaction.atomic():
                            request_fetch(f"https://{A}/{turn}")
                        Fetch.objects.filter(url=f"https://{A}/{turn}").update(
                            state=FetchState.CANCELLED, finished_at=Now(), slot_id=None, lease_until=None
                        )

    in_threads(5, work)
    fetch = request_fetch(f"https://{A}/")
    Site.objects.update(recalled_at=ago(seconds=1))
    sweep()
    fetch.refresh_from_db()
    assert fetch.site in {Site.objects.filter(name=A).first(), Site.objects.filter(name=SHOP).first()}
    assert not Fetch.objects.filter(state=FetchState.QUEUED).exclude(site__in=Site.objects.all()).exists()


def test_purge_deletes_idle_sites_and_leaves_what_a_person_set() -> None:
    """Set, paused or resumed once: it stays. So does what was created or used lately."""
    for name in ("idle.test", "never.test", "used.test", "new.test", "paused.test", "resumed.test"):
        create(name, created_at=ago(days=40), next_start=ago(days=31))
    site_settings.set_rate("set.test", "1/s")
    site_settings.pause("paused.test", timedelta(0))
    site_settings.resume("resumed.test")
    Site.objects.filter(name="set.test").update(created_at=ago(days=40), next_start=ago(days=31))
    Site.objects.filter(name="used.test").update(next_start=ago(days=29))
    Site.objects.filter(name="new.test").update(created_at=ago(days=29))
    Site.objects.update(recalled_at=None)
    purge()
    assert set(Site.objects.values_list("name", flat=True)) == {
        "used.test", "new.test", "paused.test", "resumed.test", "set.test"
    }  # fmt: skip


def test_purge_goes_on_until_it_has_looked_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """In short looks and short batches."""
    monkeypatch.setattr(deleted_sites, "SITES_A_LOOK", 7)
    monkeypatch.setattr(deleted_sites, "BATCH", 2)
    create_sites([f"{number}.test" for number in range(20)])
    Site.objects.update(created_at=ago(days=40))
    create_sites(["young.test"])
    assert delete_idle() == 20
    assert delete_idle() == 0
    assert site("young.test")


def test_the_locks_of_others_hold_up_purge_for_a_moment_only(other_connection: psycopg.Connection[Any]) -> None:
    """A site is just being set: the next purge deletes the idle ones."""
    create(created_at=ago(days=40))
    other_connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    assert delete_idle() == 0
    other_connection.rollback()
    assert delete_idle() == 1


def test_looking_for_late_fetches_and_judging_a_site_read_no_queue() -> None:
    """Sweep looks at each deleted site every time: one look at the index, however much is queued elsewhere."""
    create(SHOP)
    request_fetches([f"https://{SHOP}/{n}" for n in range(2_000)])
    old = create()
    delete(A)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_fetches_fetch'::regclass")
    place: dict[str, object] = {"after": 0, "last": old.pk}
    room = "weir.workers.fetches"
    assert rows_read(room, "late_fetches", {**place, "batch": 5_000}, "weir_fetches_fetch") == 0
    assert rows_read(room, "late_robots_files", place, "weir_fetches_robotsfile") == 0
    assert rows_read(room, "sites_with_fetches", {"sites": [site(SHOP).pk]}, "weir_fetches_fetch") <= 2


def test_looking_for_idle_sites_reads_the_next_ones_only() -> None:
    """However many there are: purge looks at all of them, so many at a time. Until ANALYZE it may read them all."""
    create_sites([f"site-{n}.test" for n in range(5_000)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_ratelimit_site")
    middle = Site.objects.order_by("pk")[2_500].pk
    for after in (0, middle):
        parameters: dict[str, object] = {"after": after, "most": 500, "idle_for": 60.0}
        assert rows_read("weir.workers.fetches", "idle_sites", parameters, "weir_ratelimit_site") == 500


def test_a_deleted_site_is_remembered_for_a_week() -> None:
    """No transaction that looked it up is open for longer."""
    for age, name in ((6, "six.test"), (8, "eight.test")):
        create(name)
        delete(name)
        DeletedSite.objects.filter(name=name).update(deleted_at=ago(days=age))
    purge()
    assert [note.name for note in DeletedSite.objects.all()] == ["six.test"]


def test_sites_that_exist_before_the_migration_are_kept() -> None:
    """A site that is created afterwards is not: the column's default has changed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_default FROM information_schema.columns "
            "WHERE table_name = 'weir_ratelimit_site' AND column_name = 'is_kept'"
        )
        assert cursor.fetchone() == ("false",)
