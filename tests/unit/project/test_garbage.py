"""Python's garbage collector, while a process starts: what is imported is not looked at again and again."""

import json
import subprocess
import sys

from project.checkout import CHECKOUT

START = """
import gc, json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
before = sum(generation["collections"] for generation in gc.get_stats()[1:])
import project
import django
django.setup()
after = sum(generation["collections"] for generation in gc.get_stats()[1:])
print(json.dumps([after - before, gc.isenabled(), gc.get_freeze_count() / len([*gc.get_objects(), 1])]))
"""


def test_next_to_nothing_is_collected_until_all_is_imported_and_that_is_never_looked_at_again() -> None:
    """After the start there are collections as in any process, of what came since."""
    said = subprocess.run([sys.executable, "-c", START], cwd=CHECKOUT, capture_output=True, check=True, text=True)
    collections, is_on, frozen_to_one_other = json.loads(said.stdout)
    assert collections < 15, "of what has survived one; it would be thirty, and two of everything"
    assert is_on
    assert frozen_to_one_other > 10, "it is twenty or more; by how many depends on how objects fell between collections"


IMPORT = """
import gc, json, sys
before = gc.get_threshold()
import project
from project import environment
print(json.dumps([gc.isenabled(), gc.get_threshold() == before, "celery" in sys.modules]))
"""


def test_who_only_reads_the_environment_gets_no_other_collector_and_no_celery_application() -> None:
    """A project may use the reader, and have a Celery application of its own."""
    said = subprocess.run([sys.executable, "-c", IMPORT], cwd=CHECKOUT, capture_output=True, check=True, text=True)
    assert json.loads(said.stdout) == [True, True, False]
