"""What processes do until they are killed: `python -m benchmarks.picture.roles NAME COUNT`.

NAME is a role of the peers, or a line of Procfile.split. The program forks so many processes, and another one for each
that is killed, as the pools of Celery do: a start costs little.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import urlopen

import django
import redis
from django.conf import settings

from benchmarks.picture.size import INTERVAL_S
from demo.fakes.children import die_with_parent
from project.processes import procfile

URLS: Final = "picture:urls"  # a list in Redis
FLUSH_EVERY_S: Final = 1.0
LOOK_EVERY_S: Final = 0.2
TIMEOUT_S: Final = 5.0


def lock() -> None:
    """Request the URLs of the list, each when the lock of its site is free: it is never released, it expires."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=None)  # it waits for a URL
    while True:
        taken: Any = client.blpop([URLS])
        url = taken[1].decode()
        client.lock(f"picture:lock:{urlsplit(url).hostname}", timeout=INTERVAL_S).acquire()
        with urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310  of a site of this benchmark
            answer.read()


def flush() -> None:
    """Write deltas to PostgreSQL, as a periodic task does that is due every second."""
    from benchmarks.unread.published import PublishedUnread  # noqa: PLC0415  once Django is set up

    published = PublishedUnread()
    while True:
        due_at = time.monotonic() + FLUSH_EVERY_S
        published.flush()
        time.sleep(max(0.0, due_at - time.monotonic()))


def loop() -> None:
    """Send the e-mails of the orders that are not flagged, as a periodic task does."""
    from benchmarks.once.published import PublishedShippedEmail  # noqa: PLC0415  as above

    emails = PublishedShippedEmail()
    while True:
        emails.send_all()
        time.sleep(LOOK_EVERY_S)


def line(name: str) -> None:
    """Be the process of Weir that this line starts."""
    os.environ["HONCHO_PROCESS_NAME"] = f"{name}.{os.getpid()}"
    words = f"printf '%s\\n' {procfile.lines()[name]}"  # the shell puts variables in
    sys.argv = subprocess.run(["/bin/sh", "-c", words], capture_output=True, text=True, check=True).stdout.split()
    from celery.__main__ import main  # noqa: PLC0415  it reads its arguments

    main()


ROLES: Final = {"lock": lock, "flush": flush, "loop": loop}


def command(name: str, count: int) -> list[str]:
    """Return the command of the program that keeps so many processes of a role."""
    return [sys.executable, "-m", __name__, name, str(count)]


def keep(role: Callable[[], None], count: int) -> None:
    """Fork so many, and replace those that are killed; end if one ended otherwise, which has said why."""
    for _ in range(count):
        _fork(role)
    while os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL:
        _fork(role)


def _fork(role: Callable[[], None]) -> None:
    if not os.fork():
        die_with_parent()
        role()
        sys.exit()


if __name__ == "__main__":
    django.setup()
    for module in ("benchmarks.once.published", "benchmarks.unread.published", "project.celery"):
        import_module(module)  # before the first fork, as each would do it again

    keep(ROLES.get(sys.argv[1], partial(line, sys.argv[1])), int(sys.argv[2]))
