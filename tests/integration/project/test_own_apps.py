"""An app that somebody adds to the project: its tasks are known to the workers."""

import os
from pathlib import Path

import pytest

from project.checkout import CHECKOUT
from tests.run_python import forked
from weir.workers import task_names

SETTINGS = "from project.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'shop']\n"
TASKS = """
from celery import shared_task


@shared_task
def page_arrived(fetch_id):
    pass
"""
KNOWN = "from project.celery import app; app.loader.import_default_modules(); print(*app.tasks)"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return a folder with the app `shop`, and the settings of a project that has installed it."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "tasks.py").write_text(TASKS)
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    return tmp_path


def test_the_tasks_of_an_installed_app_are_known(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of Weir itself are."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop_settings")
    monkeypatch.setenv("PYTHONPATH", f"{CHECKOUT}:{shop}")
    told = forked("-c", KNOWN, environment=os.environ)
    assert {"shop.tasks.page_arrived", task_names.DISPATCH} <= set(told.stdout.split())
