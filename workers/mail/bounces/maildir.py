"""Reads a Maildir. The caller marks an e-mail as seen only after it has handled it, so that a kill loses no e-mail.

The format is qmail's (https://cr.yp.to/proto/maildir.html): new e-mails lie in `new`, and a reader moves them to `cur`,
with their flags after `:2,`.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SEEN = "S"
FLAGGED = "F"
_INFO = ":2,"


class NoMaildir(ValueError):
    """The folder is not a Maildir; the message names what is missing."""


def unseen(folder: Path) -> Iterator[Path]:
    """Yield the paths of e-mails that are not marked as seen: those in `new` before those in `cur`, each by name.

    Raises NoMaildir.
    """
    for name in ("new", "cur"):
        if not (folder / name).is_dir():
            raise NoMaildir(f"{folder} is not a Maildir: it has no folder {name}.")
    for name in ("new", "cur"):
        for path in sorted((folder / name).iterdir()):
            if not path.name.startswith(".") and SEEN not in path.name.partition(_INFO)[2]:
                yield path


def read(path: Path, most: int) -> bytes | None:
    """Return the first `most` bytes of an e-mail; None if another reader has moved the file meanwhile."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return file.read(most)
    return None


def mark(path: Path, *, for_people: bool) -> None:
    """Move an e-mail to `cur` and mark it as seen; with `for_people`, also flag it.

    A second call, or another reader that marks the same e-mail at the same time, does no harm.
    """
    unique, _, flags = path.name.partition(_INFO)
    added = {SEEN, *(FLAGGED if for_people else "")}
    with suppress(FileNotFoundError):
        path.rename(path.parent.parent / "cur" / f"{unique}{_INFO}{''.join(sorted({*flags} | added))}")
