"""Python's garbage collector, while a process starts: what is imported is not looked at again and again."""

import json
import subprocess
import sys

from project.checkout import CHECKOUT

START = """
import gc, json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
before = sum(generation["collections"] for generation in gc.get_stats())
import project
import django
django.setup()
after = sum(generation["collections"] for generation in gc.get_stats())
print(json.dumps([after - before, gc.isenabled(), gc.get_freeze_count() / len([*gc.get_objects(), 1])]))
"""


def test_next_to_nothing_is_collected_until_all_is_imported_and_that_is_never_looked_at_again() -> None:
    """After the start there are collections as in any process, of what came since."""
    said = subprocess.run([sys.executable, "-c", START], cwd=CHECKOUT, capture_output=True, check=True, text=True)
    collections, is_on, frozen_to_one_other = json.loads(said.stdout)
    assert collections < 30, "of nearly three hundred"
    assert is_on
    assert frozen_to_one_other > 20, "it is some hundred; by how many depends on how objects fell between collections"
