"""Files that one process writes while another reads them: a reader never sees half of a document or of a line."""

import json
from pathlib import Path


def write_whole(path: Path, state: dict[str, object]) -> None:
    """Write JSON that replaces the file at once."""
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
