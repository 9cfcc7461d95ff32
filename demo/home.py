"""The demo's own place: a folder that each start wipes, and the environment that keeps everything in it."""

import os
import sys
from pathlib import Path

from project import embedded
from project.checkout import CHECKOUT

DEFAULT = CHECKOUT / ".weir" / "demo"
_NOTE = "this-folder-is-wiped-by-manage.py-demo"
_OWNER_LOCK = "owner.lock"  # all that a killed start can have left before the note was there


class NotTheDemos(Exception):
    """The folder holds something that no demo put there; the message names it."""


def environment(home: Path) -> dict[str, str]:
    """Return the variables with which settings and all children agree on this home.

    Whatever the environment or .env says: the demo uses servers of its own, and fetches from loopback. What becomes of
    e-mails whose worker was killed is to be seen within seconds.
    """
    return {
        "WEIR_HOME": str(home),
        "WEIR_FETCH_ALLOW_NETS": "127.0.0.0/8",
        "WEIR_FETCH_TIMEOUT": "5",
        "WEIR_OBEY_ROBOTS": "false",
        "DATABASE_URL": "",
        "REDIS_URL": "",
        "CELERY_BROKER_URL": "",
        "EMAIL_BACKEND": "workers.mail.smtp.EmailBackend",
        "EMAIL_HOST": "127.0.0.1",
        "EMAIL_HOST_USER": "",
        "EMAIL_HOST_PASSWORD": "",
        "EMAIL_USE_TLS": "0",
        "EMAIL_USE_SSL": "0",
        "EMAIL_TIMEOUT": "1",
        "DEFAULT_FROM_EMAIL": "orders@shop.example",
        "WEIR_MAIL_RATE": "",
        "WEIR_MAIL_LEASE": "4",
        "WEIR_MAIL_REPLY_TIMEOUT": "2",
        "WEIR_MAIL_UNKNOWN_AFTER": "5",
        "DJANGO_ALLOWED_HOSTS": "127.0.0.1",
        "HOST": "127.0.0.1",
    }


def enter(home: Path) -> None:
    """Start this program again, unless it runs already in the environment of this home."""
    needed = environment(home)
    if any(os.environ.get(name) != value for name, value in needed.items()):
        sys.stdout.flush()
        command = [sys.executable, str(CHECKOUT / "manage.py"), *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **needed})  # noqa: S606 -- ourselves, no shell


def wipe(home: Path) -> None:
    """Empty the home, and stop what an earlier demo that was killed left running there.

    Raises NotTheDemos, before anything is touched, and EmbeddedError while another demo is using it.
    """
    if home.exists():
        found = {entry.name for entry in home.iterdir()}
        if _NOTE not in found and found - {_OWNER_LOCK}:
            raise NotTheDemos(f"{home} holds something that is not the demo's: choose another folder with --home.")
    embedded.discard(home)
    home.mkdir(parents=True)
    (home / _NOTE).touch()
