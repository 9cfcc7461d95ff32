"""A queued fetch is never overlooked: the two steps of `has_backlog`, in every order in which they can come.

Every statement of Weir goes through `statements.execute`. Here those of the protocol wait for their turn, so that a
test decides in which order the statements of several threads, each with a connection of its own, are executed.
"""

import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import permutations, product
from typing import Any

import psycopg
import pytest
from django.db import connection, connections, transaction
from django.db.transaction import TransactionManagementError

from tests.integration.conftest import (
    Eventually,
    Message,
    WaitersOf,
    database_now,
    dispatch_message,
    waiting_for_nobody,
)
from tests.integration.fetching import queue_pages
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers import task_names
from weir.workers.fetches import backlog
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

URL = "https://site.example/"
SOON = timedelta(hours=1)
PATIENCE = 20.0
PROTOCOL = {"enqueue", "activate", "deactivate"}  # the statements that see or change what the others do


class Actor:
    """A thread that repeats its work, and executes each statement of it only when the test says so."""

    def __init__(self, work: Callable[["Actor"], None]) -> None:
        self._work = work
        self._orders = threading.Semaphore(0)
        self._reports = threading.Semaphore(0)
        self.busy = False
        self.closing = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def turn(self) -> None:
        """Wait, in the thread itself, for the order to execute the next statement."""
        self._reports.release()
        assert self._orders.acquire(timeout=PATIENCE)

    def begin(self) -> None:
        """Begin the work, and go on up to its first statement."""
        self.busy = True
        self.step()

    def step(self) -> None:
        """Let the thread go on up to its next statement, or to the end of its work."""
        if self.busy:
            self._orders.release()
            assert self._reports.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """End the thread and its connection."""
        self.closing = True
        self._orders.release()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        local.actor = self
        while self._orders.acquire() and not self.closing:
            try:
                self._work(self)
            except BaseException as error:  # noqa: BLE001  is raised in the test's thread
                self.error = error
            self.busy = False
            self._reports.release()
        connections.close_all()


local = threading.local()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every statement of the protocol wait for its actor's turn."""
    execute = statements.execute

    def in_turn(statement: Statement[Any], *how: Any) -> list[Any]:
        actor: Actor | None = getattr(local, "actor", None)
        if actor is not None and statement.room == "weir.workers.fetches" and statement.name in PROTOCOL:
            actor.turn()
        return execute(statement, *how)

    monkeypatch.setattr(statements, "execute", in_turn)


def enqueue(actor: Actor) -> None:
    """Step one of the protocol: commit the fetch, then activate its site. The commit has a turn of its own."""
    with transaction.atomic():
        request_fetch(URL)
        actor.turn()


def enqueue_for_later(actor: Actor) -> None:
    """The same with a fetch that is not due yet."""
    with transaction.atomic():
        request_fetch(URL, not_before=database_now() + SOON)
        actor.turn()


def deactivate(_actor: Actor) -> None:
    """Step two: deactivate a site that looks empty, then look again."""
    backlog.deactivate(list(Site.objects.values_list("pk", flat=True)))


@pytest.fixture
def actors(turns: None) -> Iterator[dict[str, Actor]]:  # noqa: ARG001  asked for its effect
    """Return two that enqueue (E, e), one that does so for later (L), and two that deactivate (O, o)."""
    all_actors = {
        "E": Actor(enqueue),
        "e": Actor(enqueue),
        "L": Actor(enqueue_for_later),
        "O": Actor(deactivate),
        "o": Actor(deactivate),
    }
    yield all_actors
    for actor in all_actors.values():
        actor.close()


def orders(*names: str) -> list[str]:
    """Return every order in which the steps of these actors can come: one that enqueues has 3, the other 2.

    Two actors that do the same are interchangeable: the upper-case one makes its first step first.
    """
    steps = "".join(name * (3 if name in "EeL" else 2) for name in names)
    every_order = {"".join(order) for order in permutations(steps)}
    return sorted(
        order
        for order in every_order
        if all(order.find(twin.upper()) <= order.find(twin) for twin in "eo" if twin in order)
    )


# In SQL: hundreds of orders are judged, and Django would write each of these queries anew.
QUEUED = """
    SELECT count(*), count(*) FILTER (WHERE NOT site.has_backlog AND (site.due_at <= job.not_before) IS NOT TRUE)
    FROM weir_fetches_fetch AS job JOIN weir_ratelimit_site AS site ON site.id = job.site_id
    WHERE job.state = 'queued'
"""


def queued() -> tuple[int, int]:
    """Return how many fetches are queued, and how many of them at a site that does not become active in time."""
    with connection.cursor() as cursor:
        cursor.execute(QUEUED)
        number, overlooked = cursor.fetchone()
    return number, overlooked


@pytest.mark.parametrize(
    ("names", "state"),
    [
        *product(("EO", "LO", "EL"), ("active", "inactive", "due later")),
        # From an inactive site on is as from an active one on where O comes first.
        *product(("EOo", "EeO"), ("active", "inactive") if "WEIR_FAULTS" in os.environ else ("active",)),
    ],
)
def test_no_order_of_the_steps_overlooks_a_fetch(names: str, state: str, actors: dict[str, Actor]) -> None:
    """After all have finished, in whichever order their steps came, every queued fetch is at an active site.

    Or at one that becomes active when the fetch is due.
    """
    site_settings.set_rate("site.example", "1/s")
    every_order = orders(*names)
    for order in every_order:
        Fetch.objects.all()._raw_delete(connection.alias)
        due_at = database_now() + 2 * SOON if state == "due later" else None
        Site.objects.update(has_backlog=state == "active", due_at=due_at)
        for name in names:
            actors[name].begin()
        for name in order:
            actors[name].step()
        assert not any(actors[name].busy for name in names), f"{order}: somebody has more steps"
        assert queued() == (sum(name in "EeL" for name in names), 0), order
    assert len(every_order) == {"EO": 10, "LO": 10, "EOo": 105, "EeO": 280, "EL": 20}[names]


def test_a_site_deactivated_by_a_statement_that_began_before_the_commit_is_reactivated(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """The narrowest race: fetch and activation come when the statement that deactivates has its snapshot."""
    site_settings.set_rate("site.example", "1/s")
    Site.objects.update(has_backlog=True)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")

    def deactivate_and_close() -> None:
        try:
            backlog.deactivate(list(Site.objects.values_list("pk", flat=True)))
        finally:
            connections.close_all()

    turning_off = threading.Thread(target=deactivate_and_close)
    turning_off.start()
    eventually(lambda: waiters(other_connection) == 1, "deactivate to wait, with the snapshot it has")
    request_fetch(URL)  # commits; the site is still active, so that activating it changes nothing
    other_connection.rollback()
    turning_off.join(PATIENCE)
    assert not turning_off.is_alive()
    assert queued() == (1, 0)


def inactive_sites(count: int) -> list[int]:
    """Have sites with a queued fetch each, which no process has activated; returns their ids."""
    for number in range(count):
        site_settings.set_rate(f"site-{number}.example", "1/s")
    queue_pages(1)
    Site.objects.update(has_backlog=False)
    return list(Site.objects.values_list("pk", flat=True))


def test_only_a_site_that_was_inactive_wakes_dispatch(messages: list[Message]) -> None:
    """Activating an active site sends nothing, and one message does for many sites."""
    ids = inactive_sites(3)
    backlog.activate(ids + ids)
    assert messages == [dispatch_message("site-0.example", "site-1.example", "site-2.example")]
    backlog.activate(ids)
    backlog.activate([])
    assert len(messages) == 1


def test_a_message_does_not_name_sites_without_end(messages: list[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where very many are activated at once, dispatch looks at all that are due."""
    monkeypatch.setattr(backlog, "MOST_NAMED", 2)
    inactive_sites(5)
    backlog.activate(Site.objects.filter(name__in=["site-0.example", "site-1.example"]).values_list("pk", flat=True))
    backlog.activate(Site.objects.values_list("pk", flat=True))
    assert messages == [dispatch_message("site-0.example", "site-1.example"), (task_names.DISPATCH, (None,))]


def test_a_site_with_queued_fetches_stays_active() -> None:
    """What dispatch saw may be out of date: the site's queue is looked at again."""
    request_fetch(URL)
    site = Site.objects.get()
    backlog.deactivate([site.pk])
    assert Site.objects.get().has_backlog
    backlog.deactivate([])


def test_a_site_whose_fetches_have_all_been_taken_is_deactivated() -> None:
    """Held and ended fetches are no backlog."""
    site_settings.set_rate("site.example", "10/s")
    fetches = [request_fetch(URL) for _ in range(3)]
    dispatch()
    Site.objects.update(has_backlog=True)
    cancel(fetches[0].pk)
    backlog.deactivate([Site.objects.get().pk])
    assert not Site.objects.get().has_backlog


@pytest.mark.parametrize("step", [backlog.activate, backlog.deactivate])
def test_a_step_commits_before_the_next_one_looks(step: Callable[[list[int]], None]) -> None:
    """Who queues a fetch meanwhile must see it; in a transaction it would not be committed."""
    request_fetch(URL)
    site = Site.objects.get()
    with transaction.atomic(), pytest.raises(TransactionManagementError, match=step.__name__):
        step([site.pk])


def test_a_site_that_a_killed_process_left_inactive_is_found() -> None:
    """A committed fetch whose site was never activated is found, and only its site is activated."""
    fetch = request_fetch(URL)
    site_settings.set_rate("empty.example", "1/s")
    Site.objects.update(has_backlog=False)
    assert backlog.find_overlooked() == 1
    assert [site.pk for site in Site.objects.filter(has_backlog=True)] == [fetch.site_id]
    assert backlog.find_overlooked() == 0


def test_finding_overlooked_sites_goes_round_through_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call looks at the sites after those of the last one, and begins anew after the last site."""
    monkeypatch.setattr(backlog, "SITES_A_LOOK", 2)
    fetches = [request_fetch(f"https://site-{number}.example/") for number in range(5)]
    Site.objects.update(has_backlog=False)
    assert [backlog.find_overlooked() for _ in range(4)] == [2, 2, 1, 0]
    assert Site.objects.filter(has_backlog=True).count() == len(fetches)
    Site.objects.update(has_backlog=False)
    assert [backlog.find_overlooked() for _ in range(3)] == [2, 1, 2]


def test_looking_for_overlooked_sites_waits_for_nobody(other_connection: psycopg.Connection[Any]) -> None:
    """Sweep has more to do; who holds a site may hold it for long."""
    request_fetch(URL)
    Site.objects.update(has_backlog=False)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")
    with waiting_for_nobody():
        assert backlog.find_overlooked() == 0
    other_connection.rollback()
    assert backlog.find_overlooked() == 1


def test_activating_an_active_site_waits_for_no_lock(other_connection: psycopg.Connection[Any]) -> None:
    """Web code that adds to a busy site does not wait for reservations."""
    request_fetch(URL)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")
    with waiting_for_nobody():
        backlog.activate([Site.objects.get().pk])
