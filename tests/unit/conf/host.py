"""A project that has Weir's apps among its own, and sets nothing of Weir's but what a test adds in HOST_SETTINGS."""

import json
import os
import subprocess
from typing import Any

import weir
from project.checkout import CHECKOUT
from tests.run_python import forked

SECRET_KEY = "a key of the tests"  # noqa: S105
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    *weir.APPS,
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "host",
        "HOST": os.environ.get("HOST_POSTGRES", "/nowhere"),
        "USER": "postgres",
    }
}
USE_TZ = True
SILENCED_SYSTEM_CHECKS = ["weir.W030"]  # it has no Celery app
globals().update(json.loads(os.environ.get("HOST_SETTINGS", "{}")))


def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of Django's in the project, with these settings; or, after `-c`, Python code."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "HOST_POSTGRES") if name in os.environ}
    environment = {
        **kept,
        "PYTHONPATH": str(CHECKOUT),
        "DJANGO_SETTINGS_MODULE": "tests.unit.conf.host",
        "HOST_SETTINGS": json.dumps(settings),
    }
    words = arguments if arguments[0] == "-c" else ("-m", "django", *arguments)
    return forked(*words, environment=environment)
