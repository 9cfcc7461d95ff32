"""What has changed in the code of this checkout since the processes that run it were started.

Twice a second this module reads the times of all files: some hundred, which takes about a hundredth of one processor.
So it misses no change while processes start or stop, sees new folders, and needs none of the kernel's watches, whose
number is limited.
"""

import os
import re
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from project.checkout import LOCAL

LOOK_EVERY_S = 0.5
SETTLED_S = 0.2  # files that are saved together are one change, which is over if no file has changed for this long
SUFFIXES = (".py", ".sql", ".lua", ".mo")  # a process reads translations (.mo) only once
TEMPLATES = "templates"  # in folders of this name, every file counts as code
TOP_LEVEL = (".env", "Procfile", "Procfile.split")
NOT_RUN = ("benchmarks", "docs", "tests")  # folders whose code no process runs
TESTS = re.compile(r"tests|tests\.py|test_\w+\.py")  # an app's tests: only `manage.py test` imports them

Files = dict[str, tuple[int, int]]  # for each path, the time of its last change (ns) and its size


class CodeChanged(Exception):
    """Files have changed; `paths` are their absolute paths."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.paths = paths


class Code:
    """The files as they were when the processes were started, and when they were last looked at."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._started = self._seen = files(checkout)
        self._is_held_back = False  # a change was not reported, because no process runs the changed code
        self._look_at = 0.0  # of time.monotonic()

    def check(self, *, all_ended: bool = False) -> None:
        """Raise CodeChanged if files have changed since the last look; do nothing within LOOK_EVERY_S of that look.

        A new package alone is not reported: the processes do not use it yet. The next change of other code reports it,
        too. If `all_ended` is true, a new package is reported: the processes may have ended because they lacked it.
        """
        if time.monotonic() < self._look_at:
            return
        found = files(self._checkout)
        if found != self._seen or (all_ended and self._is_held_back):
            self._seen = _settled(self._checkout, found)
            changed = differing(self._started, self._seen)
            is_used = all_ended or any(map(self._has_been_started, changed))
            self._is_held_back = not is_used
            if changed and is_used:
                raise CodeChanged(changed)
        self._look_at = time.monotonic() + LOOK_EVERY_S

    def starts(self) -> None:
        """Record that processes are started now, from the files as they were last looked at."""
        self._started = self._seen

    def _has_been_started(self, path: str) -> bool:
        """Return whether the file is at the top level, or in a package that existed when the processes were started."""
        return self._package(path) in {"", *map(self._package, self._started)}

    def _package(self, path: str) -> str:
        below = Path(path).relative_to(self._checkout).parts
        if below[0] == LOCAL.name:
            below = below[1:]
        return below[0] if len(below) > 1 else ""


def files(checkout: Path) -> Files:
    """Return the files whose changes matter to processes: those of packages, of `local`, and TOP_LEVEL."""
    found: Files = {}
    for entry in _entries(checkout):
        if entry.name in TOP_LEVEL:
            _add(found, entry)
        elif entry.name == LOCAL.name or (entry.name not in NOT_RUN and Path(entry.path, "__init__.py").is_file()):
            for below in _below(entry.path, entry.name == TEMPLATES):
                _add(found, below)
    return found


def _below(folder: str, is_template: bool) -> Iterator["os.DirEntry[str]"]:
    for entry in _entries(folder):
        if TESTS.fullmatch(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _below(entry.path, is_template or entry.name == TEMPLATES)
        elif is_template or entry.name.endswith(SUFFIXES):
            yield entry


def _entries(folder: str | Path) -> Iterator["os.DirEntry[str]"]:
    """Yield the folder's entries except hidden files, which editors write while they save another file."""
    with suppress(OSError), os.scandir(folder) as entries:  # the folder may be deleted meanwhile
        yield from (entry for entry in entries if not entry.name.startswith(".") or entry.name in TOP_LEVEL)


def _add(found: Files, entry: "os.DirEntry[str]") -> None:
    with suppress(OSError):  # as above
        state = entry.stat()
        found[entry.path] = (state.st_mtime_ns, state.st_size)


def _settled(checkout: Path, found: Files) -> Files:
    before: Files = {}
    while found != before:
        time.sleep(SETTLED_S)
        before, found = found, files(checkout)
    return found


def differing(before: Files, after: Files) -> list[str]:
    """Return the paths of files that were added, deleted or changed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def mistakes(paths: list[str]) -> str:
    """Return Python's messages about the files that it cannot parse; "" if it can parse all."""
    return "".join(_mistake(Path(path)) for path in paths if path.endswith(".py"))


def _mistake(path: Path) -> str:
    try:
        compile(path.read_bytes(), path, "exec")
    except OSError:
        return ""  # the file was deleted
    except (SyntaxError, ValueError) as error:
        return "".join(traceback.format_exception_only(error))
    return ""
