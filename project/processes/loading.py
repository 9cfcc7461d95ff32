"""Whether processes could load the project. One process finds out, so that a mistake is told once, and not by each."""

import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

from django.utils.module_loading import autodiscover_modules

from project.processes import procfile

WITHIN_S = 60.0
MOST_LINES = 8  # the last ones of a traceback: the mistake, and where it is
TASKS = "tasks"  # as Celery names the module
# Imports what the processes do: the apps, the URLs with their views, and the tasks.
LOAD = f"""
import os, django
from django.core.management import call_command
from django.utils.module_loading import autodiscover_modules
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()
call_command("check")
autodiscover_modules({TASKS!r})
"""


def refusal(env: Mapping[str, str]) -> str:
    """Return the last lines that a process with this environment writes if it cannot load the project, else ""."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "load.log")
        if procfile.succeeds([sys.executable, "-c", LOAD], env, log=log, within_s=WITHIN_S):
            return ""
        return _last_lines(log.read_text(errors="replace")) or f"The project was not loaded within {WITHIN_S:g} s."


def refusal_of_tasks() -> str:
    """Return the last lines of the traceback if this process cannot import the tasks. Its command has loaded all else.

    Returns "" if it can.
    """
    try:
        autodiscover_modules(TASKS)
    except Exception:  # noqa: BLE001  an app may raise any
        return _last_lines(traceback.format_exc())
    return ""


def _last_lines(text: str) -> str:
    """Return the end of a text, without the lines in which Python marks a place, or names its own import system."""
    lines = [line for line in text.splitlines() if line.strip(" ~^") and "<frozen importlib" not in line]
    return "\n".join(lines[-MOST_LINES:])
