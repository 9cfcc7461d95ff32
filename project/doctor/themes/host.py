"""This host: file descriptors, memory, and the disk of the embedded servers."""

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from django.conf import settings

from project.doctor.findings import Check, Verdict, good, not_checked, warning, wrong
from weir.conf import settings as weir_settings
from weir.workers.fetches.fetcher.http.descriptors import IN_FLIGHT

MIB = 2**20
FETCHER_MIB = 150  # the memory of a fetcher, not counting bodies
LOW_DISK, NO_DISK = 1_024 * MIB, 100 * MIB


def descriptors(hard: int, wanted: int) -> Verdict:
    """Judge whether the hard limit of open files, which a fetcher uses, suffices for `wanted` fetches in flight."""
    if hard == resource.RLIM_INFINITY or IN_FLIGHT * hard >= wanted:
        return good("A fetcher may open as many files as it needs.")
    return warning(
        f"A process may open {hard:,} files, so that a fetcher holds {int(IN_FLIGHT * hard):,} fetches instead of "
        f"{wanted:,}: raise the hard limit (`ulimit -Hn {int(wanted / IN_FLIGHT) + 1}`)."
    )


def memory(total: int | None, for_bodies: int) -> Verdict:
    """Judge whether this host, or container, has enough memory for one fetcher."""
    if total is None:
        return not_checked("This system does not tell its memory as Linux does.")
    needed = for_bodies + FETCHER_MIB * MIB
    if needed > total / 2:
        return warning(
            f"A fetcher may need {needed // MIB:,} MiB, and this host has {total // MIB:,}: "
            "set WEIR_FETCH_MAX_MEMORY to less."
        )
    return good(f"There are {total // MIB:,} MiB, and a fetcher needs {needed // MIB:,} at most.")


def disk(free: int, folder: Path) -> Verdict:
    """Judge the free disk space for the data of the embedded servers."""
    text = f"{free // MIB:,} MiB are free for {folder}"
    if free < NO_DISK:
        return wrong(f"{text}, and PostgreSQL stops without any: make room, or set WEIR_HOME to another folder.")
    if free < LOW_DISK:
        return warning(f"{text}: make room, or set WEIR_HOME to another folder.")
    return good(f"{text}.")


def _total_memory() -> int | None:
    """Return the bytes of memory that this process may use at most."""
    return min(_limits(), default=None)


def _limits() -> Iterator[int]:
    with suppress(OSError, ValueError):
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # the file does not exist, or has "max"
            yield int(Path(path).read_text())


def _disk() -> Verdict:
    home: Path = settings.EMBEDDED_HOME
    if all(map(os.environ.get, ("DATABASE_URL", "REDIS_URL"))):
        return not_checked("No embedded server is used.")
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    return disk(shutil.disk_usage(there).free, home)


def checks() -> list[Check]:
    """Return the checks of this theme."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        Check(name="open files", ask=partial(descriptors, hard, weir_settings.WEIR_FETCH_MAX_IN_FLIGHT)),
        Check(name="memory", ask=lambda: memory(_total_memory(), weir_settings.WEIR_FETCH_MAX_MEMORY)),
        Check(name="disk", ask=_disk),
    ]
