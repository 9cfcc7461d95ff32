"""Run as a program: becomes `manage.py` once for each line that it reads, in a child that need not import libraries.

A line is JSON: the arguments, the environment, and the files for the child's two outputs. The answer, a line, is the
child's exit status. Settings, apps and commands are imported by each child anew, in its own environment. Start it with
an empty DJANGO_SETTINGS_MODULE: a library that reads settings when it is imported then breaks it at once.
"""

import importlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path

# What every command imports of others, and what of ours reads no setting: most of a command's start.
IMPORTS = (
    "aiohttp",
    "celery.app.amqp",
    "cron_descriptor",
    "django.contrib.admin",
    "django.contrib.postgres.indexes",
    "django.core.management.commands.check",
    "django.core.management.commands.showmigrations",
    "django.db.backends.postgresql.base",
    "django.db.models",
    "django.views.debug",
    "django_structlog",
    "protego",
    "rich.progress",
    "structlog",
    "project.environment",
    "project.errors",
)
TIMEOUT_S = 60

for name in IMPORTS:
    importlib.import_module(name)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

signal.alarm(TIMEOUT_S)
for descriptor, path in enumerate(job["outputs"], start=1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
os.environ.clear()
os.environ.update(job["environment"])
sys.argv = ["manage.py", *job["arguments"]]
runpy.run_path(str(Path(__file__).parents[3] / "manage.py"), run_name="__main__")
