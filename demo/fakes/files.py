"""Files that one process writes while another reads them: a reader never sees half of a document or of a line."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


def write_whole(path: Path, state: dict[str, object]) -> None:
    """Write JSON that replaces the file in one step."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(state))
    partial.replace(path)


def read_whole_lines(path: Path, start_offset: int) -> tuple[bytes, int]:
    """Return the complete lines that follow an offset in a file that grows, and the offset to continue from.

    A last line that is only half written is left for the next call.
    """
    with path.open("rb") as file:
        file.seek(start_offset)
        written = file.read()
    whole = written[: written.rfind(b"\n") + 1]
    return whole, start_offset + len(whole)


class Entries(Generic[Entry]):
    """The entries of a list that grows, one JSON object a line: each is parsed once, however often it is read."""

    def __init__(self, path: Path, make: Callable[..., Entry]) -> None:
        self._path, self._make = path, make
        self._lock = Lock()
        self._found: list[Entry] = []
        self._offset = 0

    def all(self) -> list[Entry]:
        """Return all entries so far."""
        with self._lock:
            found, self._offset = self.since(self._offset)
            self._found += found
            return self._found.copy()

    def since(self, start_offset: int) -> tuple[list[Entry], int]:
        """Return the entries that follow an offset in the list, and the offset to continue from."""
        whole, end_offset = read_whole_lines(self._path, start_offset)
        return [self._make(**json.loads(line)) for line in whole.splitlines()], end_offset
