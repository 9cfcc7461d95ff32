"""Weir in a project that is not its own: after the five steps of its page, all jobs run in a view's one transaction.

The project has apps named as rooms of Weir's are, users with UUIDs, integer keys, ATOMIC_REQUESTS, a Celery app with a
result backend and a schedule, and a log of its own (`mysite`); a database in the tests' PostgreSQL, and a Valkey.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest

from demo.fakes import mail_server, site_log, sites
from demo.fakes.mail_server import MailServer
from demo.fakes.sites import Sites
from project import embedded
from tests import wheels
from tests.acceptance.host import host
from tests.acceptance.host.host import Host
from tests.home import DATABASE_URL
from tests.servers import PLACE
from tests.valkeys import Valkey, free_port
from tests.waiting import wait_for

DATABASE = "mysite"
ENDS_WITHIN_S = 50
OWN_WORKER = "own: celery -A mysite worker --queues celery,orders --concurrency 1"


@dataclass(frozen=True, kw_only=True)
class World:
    """The project with Weir, and whom it speaks to."""

    mysite: Host
    environment: Path
    before: set[str]  # what was in the environment before Weir
    sites: Sites
    mail: MailServer
    valkey: Valkey

    def place(self, number: str, **sent: str) -> tuple[int, object]:
        """Have Ada place an order; return the status and the answer of the view."""
        url = self.sites.url(0, f"/invoices/{number}")
        return self.mysite.ask(
            "/orders/", **{"customer": "ada", "number": number, "invoice_url": url, "card": "good", **sent}
        )

    def totals(self) -> dict[str, int]:
        """Return how many rows the project sees of each kind, and Ada's unread number."""
        found: dict[str, int] = self.mysite.ask("/totals/")[1]
        return found

    def mails(self, number: str) -> int:
        """Return how often the mail server took the e-mail about an order."""
        return sum(count for message, count in self.mail.received().items() if f"order.placed-{number}-" in message)

    def results(self, name: str = "") -> set[str]:
        """Return the names of the tasks that left a result in the project's backend, if they begin so."""
        kept = map(self.valkey.client.get, self.valkey.client.scan_iter("celery-task-meta-*"))
        return {task for one in kept if one and (task := json.loads(one)["name"]).startswith(name)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, built once."""
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def world(wheel: Path, tmp_path_factory: pytest.TempPathFactory, embedded_servers: None) -> Iterator[World]:  # noqa: ARG001
    """The project, to which Weir was added by the steps of the page, literally; all processes run."""
    if DATABASE_URL:
        pytest.skip("the project has a database on the embedded server")
    folder = tmp_path_factory.mktemp("host")
    environment, port = folder / "venv", free_port()
    host.make_environment(environment, wheel)
    before = installed(environment)
    valkey = Valkey(folder / "valkey")
    with database(), mail_server.running(folder) as mail, sites.running(1, folder) as fake_sites:
        mysite = host.make(
            folder / "mysite",
            environment,
            port,
            {
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(wheel.parent),
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                "MYSITE_DATABASE": DATABASE,
                "MYSITE_DATABASE_HOST": PLACE,
                "MYSITE_MAIL_PORT": str(mail.port),
                "MYSITE_REDIS": f"redis://{valkey.place}/0",
                "DJANGO_SUPERUSER_PASSWORD": "secret",
            },
        )
        made = World(mysite=mysite, environment=environment, before=before, sites=fake_sites, mail=mail, valkey=valkey)
        try:
            mysite.type("python manage.py migrate")
            mysite.type("python manage.py createsuperuser --no-input --username ada --email ada@example.com")
            for blocks in host.steps().values():
                shown = [output for block in blocks for output in mysite.follow(block)]
            mysite.write_what_uses_weir()
            mysite.start(f"{shown[-1]}\n{OWN_WORKER}\n")
            mysite.serve()
            yield made
        finally:
            mysite.terminal.stop_all()
            valkey.kill()


@contextmanager
def database() -> Iterator[None]:
    """Have an empty database for the project, and none afterwards."""
    with psycopg.connect(host=PLACE, user=embedded.DATABASE_USER, dbname="postgres", autocommit=True) as session:
        drop = f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"
        session.execute(drop)
        session.execute(f"CREATE DATABASE {DATABASE}")
        try:
            yield
        finally:
            session.execute(drop)


def installed(environment: Path) -> set[str]:
    """Return the files of the packages in an environment, but for byte code."""
    [packages] = environment.glob("lib/python*/site-packages")
    return {str(file.relative_to(packages)) for file in packages.rglob("*") if "__pycache__" not in file.parts}


def weirs(files: set[str]) -> set[str]:
    """Return those of the distribution `django-weir`."""
    return {file for file in files if file.partition("/")[0] == "weir" or file.startswith("django_weir-")}


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


def test_distributions_take_nothing_of_each_other_along(world: World, tmp_path: Path) -> None:
    """Neither do those whose packages have the names of Weir's rooms, nor does Weir, which leaves nothing."""
    copy = tmp_path / "venv"
    subprocess.run(["cp", "--archive", "--link", world.environment, copy], check=True)
    both = installed(copy)
    # By what each lists as its files, as pip does, and sooner.
    remove: list[str | Path] = [*host.UV, "pip", "uninstall", "--python", copy / "bin" / "python"]
    subprocess.run([*remove, "ratelimit", "django-notifications-hq"], check=True)
    without_others = installed(copy)
    assert both - without_others
    assert weirs(without_others) == weirs(both) == both - world.before
    subprocess.run([*remove, "django-weir"], check=True)
    assert installed(copy) == without_others - weirs(both)
    [packages] = copy.glob("lib/python*/site-packages")
    assert not (packages / "weir").exists()


def test_it_is_taken_out_by_the_page(world: World) -> None:
    """The last thing that is done here: its tables and its schedule go, and the project's stay."""
    world.mysite.terminal.stop_all()
    world.mysite.type(host.taking_out())
    with psycopg.connect(host=PLACE, user=embedded.DATABASE_USER, dbname=DATABASE) as session:
        tables = {name for (name,) in session.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")}
        schedule = {name for (name,) in session.execute("SELECT name FROM django_celery_beat_periodictask")}
    assert {table for table in tables if table.startswith("weir_")} == set()
    assert "orders_order" in tables
    assert {name for name in schedule if name.startswith("weir")} == set()
    assert schedule
