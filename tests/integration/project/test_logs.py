"""What the Procfile's own command lines log: WEIR_LOG_LEVEL means what it says in Celery's processes, too."""

import json
from pathlib import Path

import psutil
import pytest
from pytest_django import Settings

from demo.fakes import sites
from project.celery import app
from tests.integration.conftest import Eventually
from tests.integration.fetching import reserve_all
from tests.integration.project.conftest import Procfile
from tests.waiting import wait_for
from weir.workers import task_names
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = pytest.mark.django_db(transaction=True)


def test_beat_logs_that_it_holds_the_lock(procfile: Procfile, eventually: Eventually) -> None:
    """It is a line of the level INFO, which is the default."""
    procfile.start("beat")
    eventually(lambda: '"event": "beat_holds_lease"' in procfile.said("beat"), "the line")


@pytest.mark.parametrize(("level", "lines"), [("INFO", 1), ("WARNING", 0)])
def test_a_worker_logs_by_our_level(level: str, lines: int, procfile: Procfile, eventually: Eventually) -> None:
    """Celery says at the level INFO that it is connected, as Weir says that a site is backed off."""
    procfile.start("fetcher", WEIR_LOG_LEVEL=level)
    eventually(lambda: procfile.broker.client_list() and procfile.broker.llen("weir.fetch") == 0, "the worker to start")
    procfile.broker.lpush("weir.fetch", "no message")
    eventually(lambda: '"level": "critical"' in procfile.said("fetcher") or "decode" in procfile.said("fetcher"), "it")
    assert procfile.said("fetcher").count('"event": "Connected to redis') == lines


PRINTS = """
from celery import shared_task

@shared_task(name="shop.tasks.prints")
def prints():
    import sys
    print("price", 12)
    print("no price", file=sys.stderr)
"""


def test_what_a_task_prints_is_a_line_with_its_name(procfile: Procfile, tmp_path: Path, eventually: Eventually) -> None:
    """At the level INFO, or WARNING for stderr; Celery would log it in pieces, as warnings of nobody."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "tasks.py").write_text(PRINTS)
    settings = "from project.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'shop']\n"
    (tmp_path / "shop_settings.py").write_text(settings)
    procfile.start("worker", DJANGO_SETTINGS_MODULE="shop_settings", PYTHONPATH=str(tmp_path), CELERY_QUIET="1")
    eventually(lambda: "ready." in procfile.said("worker"), "the worker")
    url = f"redis+socket://{procfile.broker.connection_pool.connection_kwargs['path']}"
    with app.connection_for_write(url) as connection:
        app.send_task("shop.tasks.prints", queue="default", connection=connection)
    eventually(lambda: "no price" in procfile.said("worker"), "the lines")
    lines = [json.loads(line) for line in procfile.said("worker").splitlines() if "price" in line]
    told = [(line["event"], line["level"], line["logger"], line["task"]) for line in lines]
    task = "shop.tasks.prints"
    assert told == [("price 12", "info", "stdout", task), ("no price", "warning", "stderr", task)]
    assert "[tasks]" not in procfile.said("worker")


def test_a_fetcher_logs_what_it_has_run_out_of(
    procfile: Procfile, running_sites: sites.Sites, eventually: Eventually, settings: Settings
) -> None:
    """It raises no alarm where nobody reads it: the line is there at the default level."""
    settings.WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
    url = f"redis+socket://{procfile.broker.connection_pool.connection_kwargs['path']}"

    def after_dispatch(condition: object) -> object:  # costs more than to wait: not too often
        if slots := reserve_all():
            with app.connection_for_write(url) as connection:
                app.send_task(task_names.FETCH_BATCH, args=(slots,), queue="weir.fetch", connection=connection)
        return condition

    fetcher = psutil.Process(procfile.start("fetcher", WEIR_FETCH_ALLOW_NETS="127.1.0.0/16").pid)
    eventually(lambda: "ready." in procfile.said("fetcher"), "the fetcher")
    request_fetch(running_sites.url(0, "/ok"))
    wait_for(
        lambda: after_dispatch(Fetch.objects.filter(state=FetchState.DONE).exists()), 20, "the first fetch", every_s=0.2
    )
    _, most = fetcher.rlimit(psutil.RLIMIT_NOFILE)
    fetcher.rlimit(psutil.RLIMIT_NOFILE, (3, most))  # what is open stays; a number that is free by chance does not help
    request_fetch(running_sites.url(1, "/ok"))
    said = '"event": "fetcher_has_run_out"'
    wait_for(lambda: after_dispatch(said in procfile.said("fetcher")), 20, "the line", every_s=0.2)
