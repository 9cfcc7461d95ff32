"""Weir in a project that is not its own: after the five steps of its page, all jobs run in a view's one transaction."""

from functools import partial

from demo.fakes import site_log
from tests.acceptance.host import host
from tests.acceptance.host.conftest import World
from tests.waiting import wait_for

ENDS_WITHIN_S = 50


def test_the_page_has_five_steps() -> None:
    """And something to do in each."""
    assert [number for number, blocks in host.steps().items() if blocks] == [1, 2, 3, 4, 5]


def test_all_three_jobs_run_in_a_views_one_transaction(world: World) -> None:
    """The fetch is asked for and its task called, the number is the user's with a UUID, the e-mail is sent once."""
    before = world.totals()
    assert world.place("17") == (200, {"unread": before["unread"] + 1})
    wait_for(lambda: world.mysite.ask("/api/orders/17/")[1]["invoice"], ENDS_WITHIN_S, world.mysite.shown())
    wait_for(lambda: world.mails("17"), ENDS_WITHIN_S, world.mysite.shown())
    assert world.totals() == {name: number + 1 for name, number in before.items()}
    assert world.mails("17") == 1


def test_what_a_view_rolls_back_was_never_asked_for(world: World) -> None:
    """The view has done all three when it raises; what is asked for after it comes before nothing of it does."""
    before = world.totals()
    assert world.place("18", card="refused")[0] == 500
    assert world.totals() == before
    world.place("19")
    wait_for(lambda: world.mysite.ask("/api/orders/19/")[1]["invoice"], ENDS_WITHIN_S, world.mysite.shown())
    wait_for(lambda: world.mails("19"), ENDS_WITHIN_S, world.mysite.shown())
    assert world.totals() == {name: number + 1 for name, number in before.items()}
    assert world.mails("18") == 0
    assert "/invoices/18" not in {arrival.path for arrival in site_log.read_arrivals(world.sites.log)[0]}


def test_the_projects_own_tasks_go_on(world: World) -> None:
    """Its schedule is run, its tasks keep their queue and their results, and no task of Weir's leaves a result."""
    world.place("20")
    for task in ("orders.tasks.count", "orders.tasks.invoice_came"):
        wait_for(partial(world.results, task), ENDS_WITHIN_S, world.mysite.shown())
    assert {name for name in world.results() if not name.startswith("orders.tasks.")} == set()


def test_nothing_of_the_project_is_wrong(world: World) -> None:
    """Its checks, its migrations, its packages, and all processes that Weir needs."""
    world.mysite.type("python manage.py check --fail-level WARNING")
    world.mysite.type("python manage.py makemigrations --check")
    world.mysite.type("pip check")
    world.mysite.looks_well("python manage.py status", ENDS_WITHIN_S)


def test_the_projects_own_tests_pass(world: World) -> None:
    """With weir.testing and without it, in an environment that has neither a broker nor Redis."""
    shown = world.mysite.type("MYSITE_REDIS=redis://127.0.0.1:1/0 python manage.py test")
    assert "Ran 10 tests" in shown
