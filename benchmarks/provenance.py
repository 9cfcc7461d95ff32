"""Where figures come from: the day, the commit, the machine and the versions, in `<folder>/provenance.json`."""

import datetime as dt
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil
from django.db import connection

from benchmarks import broker
from benchmarks.figures import KEPT, PAGE, PICTURE, README
from project.checkout import CHECKOUT

FILE: Final = "provenance.json"
PEERS: Final = (
    "celery",
    "scrapy",
    "throttled-py",
    "limits",
    "pyrate-limiter",
    "django-mailer",
    "django-post_office",
)


def note(benchmark: str, folder: Path) -> None:
    """Record where the figures of this benchmark come from: the commit, machine and versions that run now."""
    file = folder / FILE
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, benchmark: _now()}, indent=2) + "\n")


def _now() -> dict[str, str]:
    return {
        "day": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB, {platform.machine()}",
        "python": platform.python_version(),
        "postgresql": _postgresql(),
        "valkey": _valkey(),
        "peers": ", ".join(_installed()),
        "sizes": " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if _is_size(name)),
    }


def _is_size(name: str) -> bool:
    return name.startswith("WEIR_BENCH_")


def _commit() -> str:
    """Return the commit that is checked out, and whether files that no benchmark writes differ from it."""
    of = _git("rev-parse", "--short=12", "HEAD")
    own = (f":!{path.relative_to(CHECKOUT)}" for path in (PAGE, KEPT, README, PICTURE))
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *own)
    return f"{of} with changes" if changed else of


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _postgresql() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return str(cursor.fetchone()[0])


def _valkey() -> str:
    with broker.connect() as client:
        said: dict[str, object] = client.info("server")
    return str(said["valkey_version"])


def _installed() -> Iterator[str]:
    """Yield the installed peers, which `make bench` installs, with their versions."""
    for name in PEERS:
        with suppress(PackageNotFoundError):
            yield f"{name} {version(name)}"
