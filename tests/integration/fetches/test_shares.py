"""Shares: within a site they take turns, by their weights; priority and age count within a share."""

import json
import random
from datetime import timedelta
from io import StringIO
from typing import NamedTuple

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.cases import case
from tests.integration.conftest import claimed, database_now
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches import strays
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.models import HIGHEST_PRIORITY, Fetch, FetchState
from weir.workers.fetches.reports.forecast import forecast
from weir.workers.fetches.reports.why import why
from weir.workers.fetches.retrying import retry_failed
from weir.workers.watches import asking
from weir.workers.watches.watching import watch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITE = "site.example"
URL = "https://site.example/"


class Row(NamedTuple):
    """A queued fetch, in the order of its queue."""

    priority: int
    due_in_s: int
    share: str | None

    @property
    def place(self) -> tuple[int, int]:
        return -self.priority, self.due_in_s


@pytest.fixture(autouse=True)
def _one_site(settings: Settings) -> None:
    settings.WEIR_LOOKAHEAD = 2.0
    settings.WEIR_OBEY_ROBOTS = False
    site_settings.set_rate(SITE, "1/s")  # two slots in a run


def ask(share: str | None, count: int = 1) -> list[int]:
    return list(request_fetches([URL] * count, share=share).ids)


def served(slots: int) -> str:
    """Let dispatch give so many slots, two in each run; returns the shares that got them, in the order of the slots."""
    got: list[str] = []
    while len(got) < slots:
        Site.objects.update(next_start=database_now() - timedelta(minutes=1), has_backlog=True)
        assert dispatch()
        held = Fetch.objects.filter(state=FetchState.RESERVED).order_by("slot_id")
        got += [fetch.share or "." for fetch in held]
        held.update(state=FetchState.DONE, status_code=200, finished_at=database_now(), lease_until=None)
    return "".join(got)


def test_shares_take_turns_by_their_weights() -> None:
    """However many one has queued before; a new one goes within one turn of each, and a new weight counts at once."""
    before = ask(None, 3)
    ask("a", 150)
    ask("b", 3)
    assert served(8) == ".ab.ab.a"  # what is nobody's, and was asked for before there were shares, is one share more
    ask("c")
    ask("b", 9)
    assert served(4) == "bcab"
    call_command("sites", "set", SITE, "--weight", "b=3", stdout=StringIO())
    ask(None, 2)  # after there are shares
    assert served(10) == "bb.abbb.ab"
    assert set(before) <= set(Fetch.objects.filter(state=FetchState.DONE).values_list("pk", flat=True))


def backlog_of_another() -> None:
    ask("a", 150)


def asked_for_in_the_same_transaction() -> int:
    with transaction.atomic():
        backlog_of_another()
        return ask(None)[0]


def ended(url: str, **outcome: object) -> int:
    """Return a fetch that had no share, and for which this outcome was stored once others wait at the site."""
    fetch = request_fetch(url)
    assert dispatch()
    job = claimed(fetch.pk)
    backlog_of_another()
    store([FetchOutcome(fetch_id=fetch.pk, slot_id=job.slot_id, **{"state": FetchState.QUEUED, **outcome})])  # type: ignore[arg-type]
    return fetch.pk


def tried_again() -> int:
    return ended(URL, error="the site answered 503", delay_s=0.001)


def redirected() -> int:
    backlog_of_another()
    return ended("https://other.example/", hop_url=URL, hop_host=SITE)


def retried() -> int:
    failed = ended(URL, state=FetchState.FAILED, error="no")
    assert retry_failed(Fetch.objects.all()).queued == 1
    return failed


def moved_after_a_split() -> int:
    site_settings.set_rate("example", "1/s", covers_subdomains=True)
    site_settings.set_rate("split.example", "1/s")
    fetch = request_fetch(URL)
    backlog_of_another()
    Fetch.objects.filter(pk=fetch.pk).update(site=Site.objects.get(name="example"), not_before=database_now())
    assert strays.follow_all(split_before_s=0) == 1
    return fetch.pk


WAYS = (asked_for_in_the_same_transaction, tried_again, redirected, retried, moved_after_a_split)


def test_what_is_nobodys_takes_turns_however_it_comes_to_the_site() -> None:
    """It does not wait behind all that a share has queued before."""
    for way in WAYS:
        Fetch.objects.all().delete()
        Site.objects.update(turn_share=None, next_start=database_now() - timedelta(minutes=1))
        with case(way.__name__):
            fetch = way()
            Fetch.objects.filter(state=FetchState.RESERVED).delete()
            served(4)
            assert Fetch.objects.get(pk=fetch).state == FetchState.DONE


class Given(NamedTuple):
    """The queue of a site, how many are asked for, the weights, and whose turn it was and how much of it is used."""

    rows: list[Row]
    most: int
    weights: dict[str, int]
    whose: str
    had: int


Next = tuple[int, str | None, int | None]  # a place in `rows`, its share, and how much of its turn is used with it


def in_turn(site: Site, given: Given) -> list[Next]:
    """Return what PostgreSQL finds to be next."""
    now = database_now()
    columns = [(row.priority, now + timedelta(seconds=row.due_in_s), row.share) for row in given.rows]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM weir_fetches_fetch")
        cursor.executemany(
            "INSERT INTO weir_fetches_fetch (url, hop_url, state, site_id, max_attempts, priority, not_before, share)"
            f" VALUES ('https://site.example/', '', 'queued', {site.pk}, 5, %s, %s, %s)",
            columns,
        )
        cursor.execute(
            "SELECT fetch_id - (SELECT min(id) FROM weir_fetches_fetch), share, in_turn"
            " FROM weir_fetches_in_turn(%s, %s, %s, %s::jsonb, %s, %s) ORDER BY place",
            [site.pk, given.most, now, json.dumps(given.weights), given.whose, given.had],
        )
        return list(cursor.fetchall())


def expected(given: Given) -> list[Next]:
    """Return what round robin gives, taken literally: one share after the other, one turn after the other."""
    rows, whose, weights = given.rows, given.whose, given.weights
    due = sorted((place for place, row in enumerate(rows) if row.due_in_s <= 0), key=lambda place: rows[place].place)
    own = [place for place in due if rows[place].priority == HIGHEST_PRIORITY]
    queues: dict[str, list[int]] = {}
    for place in due:
        if place not in own:
            queues.setdefault(rows[place].share or "", []).append(place)
    names = sorted({whose, *queues})
    names = names[names.index(whose) :] + names[: names.index(whose)]
    got: list[Next] = [(place, None, None) for place in own]
    used = min(given.had, weights.get(whose, 1))
    while any(queues.values()):
        for name in names:
            while queues.get(name) and used < weights.get(name, 1):
                used += 1
                got.append((queues[name].pop(0), name, used))
            used = 0
    return got[: given.most]


def test_the_order_is_that_of_round_robin() -> None:
    """For any queue, weights and turn: priorities, what is not due yet, what is nobody's, and what Weir asks for."""
    site = Site.objects.get()
    for seed in range(60):
        with case(f"seed {seed}"):
            chance = random.Random(seed)  # noqa: S311
            names = chance.sample([None, "", "a", "b", "tenant 7", "Ä", "zz"], chance.randint(1, 7))
            weights = {name: chance.choice([1, 2, 5]) for name in names if name and chance.random() < 0.5}
            rows = [
                Row(chance.choice([0, 0, 0, 3, -2]), chance.choice([-3, -2, -1, 0, 60]), chance.choice(names))
                for _ in range(chance.choice([1, 5, 30, 80]))
            ]
            rows += [Row(HIGHEST_PRIORITY, 0, None)] * chance.choice([0, 0, 2])
            whose, had = chance.choice(["", "a", "m", "zz"]), chance.randint(0, 5)
            given = Given(rows, chance.choice([1, 2, 10, 200]), weights, whose, had)
            assert in_turn(site, given) == expected(given)


def test_why_and_the_forecast_know_whose_turn_it_is(admin_client: Client) -> None:
    """Both count what dispatch gives slots to before the fetch, with weights, within a turn and after it."""
    site_settings.set_rate(SITE, weights={"a": 3})
    ask("a", 40)
    served(2)
    ask(None, 5)
    mine, last = ask("b", 4)[-1], ask("0")[0]
    served(2)
    shown = StringIO()
    call_command("sites", "show", SITE, stdout=shown)
    assert "without a share: 5; b: 3; 0: 1" in shown.getvalue()
    page = admin_client.get(reverse("weir_ops:site", args=[SITE])).content.decode()
    assert "<dt>without a share</dt><dd>5</dd>" in page
    assert f">{Fetch.objects.get(share='0').pk}</a>" in page  # is among what starts next
    expected_at, seen_at = {}, {}
    said = why(last).blockers[-1].text
    assert "as its share 0 takes turns with 3 others" in said, said
    for fetch in (mine, last, ask(None)[0]):
        expected_at[fetch] = why(fetch).blockers[-1].ahead
    ahead = forecast(SITE).ahead
    order = list(Fetch.objects.filter(state=FetchState.DONE).values_list("pk", flat=True))
    nobodys = ask(None)[0]
    expected_at[nobodys] = ahead
    gone = len(order)
    while Fetch.objects.filter(pk__in=expected_at, state=FetchState.QUEUED).exists():
        served(1)
    done = list(Fetch.objects.filter(state=FetchState.DONE).order_by("slot_id").values_list("pk", flat=True))
    for fetch in expected_at:
        seen_at[fetch] = done.index(fetch) - gone
    assert seen_at == expected_at


FILL = """
    TRUNCATE weir_fetches_fetch CASCADE;
    DELETE FROM pg_statistic WHERE starelid = 'weir_fetches_fetch'::regclass;
    INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, max_attempts, priority, share, not_before)
    SELECT 'http://a/', '', {site}, 'queued', 5, n % {priorities}, 's' || n % {shares}, now()
    FROM generate_series(1, {queued}) AS n;
"""


def test_the_cost_of_a_dispatch_does_not_grow_with_the_backlog() -> None:
    """As many pages of PostgreSQL's are read for twenty slots of a large queue as of a small one.

    Nor does it grow with the priorities of a share, such as a score of each fetch.
    """
    site, read = Site.objects.get(), {}
    with connection.cursor() as cursor:
        many = ((9_000, 1, 3), (9_000, 9_000, 3), (9_000, 1, 9_000))
        for queued, shares, priorities in ((300, 1, 3), (300, 300, 3), *many):
            cursor.execute(FILL.format(site=site.pk, shares=shares, queued=queued, priorities=priorities))
            for statistics in ("none", "fresh"):
                if statistics == "fresh":
                    cursor.execute("ANALYZE weir_fetches_fetch")
                cursor.execute("DISCARD PLANS")
                for _ in range(2):  # the first one looks the catalogue up, too
                    cursor.execute(
                        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
                        f" SELECT FROM weir_fetches_in_turn({site.pk}, 20, clock_timestamp(), NULL, 's', 0)"
                    )
                    [[plan]] = cursor.fetchone()
                read[queued, shares, priorities, statistics] = (
                    plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
                )
    few = ((300, 1, 3), (300, 300, 3), (300, 1, 3))
    for large, small, times in zip(many, few, (2, 2, 100), strict=True):  # 100: the NULLs are looked for among 1,000
        assert max(read[*large, each] for each in ("none", "fresh")) < times * read[*small, "fresh"], read


def test_shares_at_which_nothing_is_due_yet_keep_no_other_from_its_turn() -> None:
    """However many they are: a dispatch looks at some of them, and the next one goes on there."""
    ask("a", 20)
    ask("z", 20)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, max_attempts, priority, share, not_before)"
            " SELECT 'http://a/', '', %s, 'queued', 5, 0, 'm' || n, now() + interval '1 hour'"
            " FROM generate_series(1, 1500) AS n",
            [Site.objects.get().pk],
        )
    assert served(8).count("z") >= 2
    Fetch.objects.filter(share__in=["a", "z"]).delete()
    ask("y", 20)  # both after all of these, so that the first dispatch sees neither
    ask("z")
    assert "z" in served(8)


def test_many_sites_look_at_few_such_shares_each() -> None:
    """One statement gives slots to all sites: whoever else waits for its slots waits until these have looked."""
    for number in range(20):
        site_settings.set_rate(f"{number}.example", "1/s")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_fetches_fetch (url, hop_url, site_id, state, max_attempts, priority, share, not_before)"
            " SELECT 'http://a/', '', id, 'queued', 5, 0, 'm' || lpad(n::text, 4, '0'),"
            " now() + CASE n WHEN 600 THEN '-1 hour' ELSE '1 hour' END::interval"
            " FROM weir_ratelimit_site, generate_series(1, 600) AS n WHERE name <> %s",
            [SITE],
        )
    Site.objects.exclude(name=SITE).update(has_backlog=True)
    assert dispatch() == 20
    assert set(Site.objects.exclude(name=SITE).values_list("turn_share", flat=True)) == {"m0249"}  # 5,000 / 20, and ''


def test_fetches_of_a_watch_have_its_share() -> None:
    watch(URL, every=timedelta(hours=1), share="a")
    asking.ask_due()
    assert Site.objects.get().turn_share == "", "what is nobody's takes turns from now on"
    watch(URL, every=timedelta(hours=1), share="b")
    Fetch.objects.update(state=FetchState.DONE, status_code=200, finished_at=Now())
    asking.let_all_be_due()
    asking.ask_due()
    assert list(Fetch.objects.order_by("pk").values_list("share", flat=True)) == ["a", "b"]


def test_dedupe_is_within_a_share() -> None:
    """What is another's may wait for long, or be cancelled by that one."""
    first, other, again = (request_fetch(URL, share=share, dedupe=True).pk for share in ("a", "b", "a"))
    assert first == again != other


@pytest.mark.parametrize(("share", "error"), [("s" * 101, ValueError), ("a\nb", ValueError), (7, TypeError)])
def test_a_share_is_a_short_text(share: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="share must be"):
        ask(share)
