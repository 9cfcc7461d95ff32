"""What others say of the same reports: Sisimai's own tests, and flufl.bounce where it is installed."""

import re
from dataclasses import dataclass
from email import message_from_bytes
from importlib import import_module
from pathlib import Path

_ENTRY = re.compile(r"^\s*'(\d\d)'\s*=>\s*\[", re.MULTILINE)
_ROW = re.compile(r"\['[^']*',\s*'[^']*',\s*'(\w*)',\s*(true|false)")
_DEAD = frozenset({"userunknown", "hostunknown", "hasmoved"})


@dataclass(frozen=True, slots=True)
class Expected:
    """What Sisimai says of a recipient."""

    reason: str
    is_hard: bool

    @property
    def is_dead(self) -> bool:
        """Whether the address does not exist."""
        return self.is_hard and self.reason in _DEAD


def of_sisimai(folder: Path) -> dict[str, list[Expected]]:
    """Return what the tests in a checkout of rb-sisimai expect of each file, by its name without the suffix."""
    found: dict[str, list[Expected]] = {}
    for path in sorted((folder / "test" / "public").glob("*.rb")):
        text = path.read_text()
        entries = [*_ENTRY.finditer(text)]
        for number, entry in enumerate(entries):
            end = entries[number + 1].start() if number + 1 < len(entries) else len(text)
            rows = [Expected(row[1], row[2] == "true") for row in _ROW.finditer(text[entry.end() - 1 : end])]
            found[f"{path.stem}-{entry[1]}"] = rows
    return found


def only_warns(content: bytes) -> bool | None:
    """Tell whether flufl.bounce takes an e-mail for a warning; None if it is not installed, or finds nothing."""
    try:
        scan = import_module("flufl.bounce").all_failures
    except ImportError:
        return None
    for_now, for_good = scan(message_from_bytes(content))
    return bool(for_now) and not for_good if for_now or for_good else None
