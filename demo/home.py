"""The demo's own folder, which each start wipes, and the environment that keeps everything in it."""

import os
import sys
from pathlib import Path

from project import embedded
from project.checkout import CHECKOUT

DEFAULT = CHECKOUT / ".weir" / "demo"
_NOTE = "this-folder-is-wiped-by-manage.py-demo"
_OWNER_LOCK = "owner.lock"  # the only file that a start can have left if it was killed before it wrote the note


class NotADemoFolder(Exception):
    """The folder holds something that no demo has written; the message names the folder."""


def environment(home: Path) -> dict[str, str]:
    """Return the variables with which settings and all child processes agree on this home.

    They overrule .env: the demo uses servers of its own, fetches from loopback addresses, and decides within seconds
    about e-mails whose worker was killed.
    """
    return {
        "WEIR_HOME": str(home),
        "WEIR_FETCH_ALLOW_NETS": "127.0.0.0/8",
        "WEIR_FETCH_TIMEOUT": "5",
        "WEIR_OBEY_ROBOTS": "false",
        "DATABASE_URL": "",
        "REDIS_URL": "",
        "CELERY_BROKER_URL": "",
        "EMAIL_BACKEND": "weir.workers.mail.smtp.EmailBackend",
        "EMAIL_HOST": "127.0.0.1",
        "EMAIL_HOST_USER": "",
        "EMAIL_HOST_PASSWORD": "",
        "EMAIL_USE_TLS": "0",
        "EMAIL_USE_SSL": "0",
        "EMAIL_TIMEOUT": "1",
        "DEFAULT_FROM_EMAIL": "orders@shop.example",
        "WEIR_MAIL_RATE": "",
        "WEIR_MAIL_LEASE": "4",
        "WEIR_MAIL_CA_FILE": "",
        "WEIR_MAIL_EHLO_NAME": "",
        "WEIR_MAIL_XOAUTH2_TOKEN": "",
        "WEIR_MAIL_COMMAND_TIMEOUT": "1",
        "WEIR_MAIL_REPLY_TIMEOUT": "2",
        "WEIR_MAIL_UNKNOWN_AFTER": "5",
        "DJANGO_ALLOWED_HOSTS": "127.0.0.1",
        "HOST": "127.0.0.1",
    }


def enter(home: Path) -> None:
    """Replace this process by one in the environment of this home, unless it is that already."""
    needed = environment(home)
    if any(os.environ.get(name) != value for name, value in needed.items()):
        sys.stdout.flush()
        command = [sys.executable, str(CHECKOUT / "manage.py"), *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **needed})  # noqa: S606 -- ourselves, no shell


def wipe(home: Path) -> None:
    """Empty the home, and stop servers that a killed demo left running there.

    NotADemoFolder, before anything is changed; EmbeddedError while another demo uses the folder.
    """
    if home.exists():
        found = {entry.name for entry in home.iterdir()}
        if _NOTE not in found and found - {_OWNER_LOCK}:
            raise NotADemoFolder(f"{home} holds something that is not the demo's: choose another folder with --home.")
    embedded.discard(home)
    home.mkdir(parents=True)
    (home / _NOTE).touch()
