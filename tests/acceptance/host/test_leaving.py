"""Weir is taken out of a project that is not its own: the distribution, and what is in the database."""

import subprocess
from pathlib import Path

import psycopg

from project import embedded
from tests.acceptance.host import host
from tests.acceptance.host.conftest import DATABASE, World, installed
from tests.servers import PLACE


def weirs(files: set[str]) -> set[str]:
    """Return those of the distribution `django-weir`."""
    return {file for file in files if file.partition("/")[0] == "weir" or file.startswith("django_weir-")}


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
