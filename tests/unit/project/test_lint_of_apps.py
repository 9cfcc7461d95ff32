"""`make lint` holds Weir's packages to the house's rules, and a user's apps to those that find mistakes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import django
from django.template import Context, Engine

from project.checkout import CHECKOUT
from tests.cases import for_each

RUFF = str(Path(sys.executable).with_name("ruff"))
TEMPLATES = sorted((Path(django.__file__).parent / "conf" / "app_template").glob("*.py-tpl"))
TASKS = """\
from celery import shared_task


@shared_task(name="shop.tasks.page_arrived")
def page_arrived(fetch_id):
    print(fetch_id)
"""
TESTS = """\
from django.test import TestCase


class Arrival(TestCase):
    def test_it(self):
        assert 1 + 1 == 2
"""


def shown_view() -> str:
    """Return the view that the page on apps shows."""
    page = (CHECKOUT / "docs" / "how-to" / "add-your-app.md").read_text()
    [view] = re.findall(r"In `local/shop/api.py`:\n\n```python\n(.*?)```", page, re.DOTALL)
    return str(view)


def findings(path: str, code: str) -> list[str]:
    """Return the codes of what ruff finds where this code stands in a file of this path."""
    command = [RUFF, "check", "--output-format", "json", "--stdin-filename", path, "-"]
    told = subprocess.run(command, cwd=CHECKOUT, input=code, capture_output=True, text=True, check=False)
    return [finding["code"] for finding in json.loads(told.stdout)]


def is_formatted(path: str, code: str) -> bool:
    command = [RUFF, "format", "--check", "--stdin-filename", path, "-"]
    return (
        subprocess.run(command, cwd=CHECKOUT, input=code, capture_output=True, text=True, check=False).returncode == 0
    )


@for_each("template", TEMPLATES, ids=lambda path: path.stem)
def test_what_startapp_makes_has_no_findings(template: Path) -> None:
    """As Django writes it."""
    names = {
        "app_name": "shop",
        "camel_case_app_name": "Shop",
        "docs_version": "5.2",
        "unicode_literals": "",
    }
    code = Engine().from_string(template.read_text()).render(Context(names, autoescape=False))
    assert findings(f"local/shop/{template.stem}.py", code) == []
    assert is_formatted(f"local/shop/{template.stem}.py", code)


@for_each(("path", "code"), [("shop/api.py", shown_view()), ("shop/tasks.py", TASKS), ("shop/tests.py", TESTS)])
def test_what_a_user_writes_has_no_findings(path: str, code: str) -> None:
    """The page's view, a task that prints, a test: without docstrings and types."""
    assert findings(path, code) == []
    assert is_formatted(path, code)


def test_mistakes_are_found_all_the_same() -> None:
    """A name that does not exist, and an argument that all calls share."""
    assert findings("local/shop/views.py", "def view(request, seen=[]):\n    return sene\n") == ["B006", "F821"]


@for_each("path", ["workers/shop.py", "project/shop.py", "tests/unit/shop.py", "demo/fakes/shop.py", "manage.py"])
def test_weirs_own_packages_keep_the_houses_rules(path: str) -> None:
    """Types, at least, everywhere; docstrings, but in tests."""
    found = findings(path, "def view(request):\n    return request\n")
    assert "ANN001" in found
    assert ("D103" in found) != path.startswith("tests/")
