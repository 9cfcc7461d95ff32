"""Canaries: whether logs hold what they must not, wherever a URL may have come into them."""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

# A URL of which some path, query or user information is left.
UNMASKED = re.compile(r"""://(?:[^\s/"'@]*@|[^\s/"'\\]*[/?#](?!\*\*\*)[^\s"'\\)>:,.])\S*""")
HOW_TO_WRITE = re.compile(r"\S*:PASSWORD@HOST\S*")  # a URL, in a sentence of Weir's own
# What Celery prints about itself when it starts; it is not a line of the log.
BANNER = re.compile(r"^\W+ (?:transport|results|broker)\W")
OF_FAKE_SITES = ("requests.log", "answers.log")  # they list what was asked for; they are not logs of Weir
SHOWN = 500  # characters of a line


def watch_logging(patch: pytest.MonkeyPatch) -> list[str]:
    """Check every line that this process logs, as it is written; return the list to which those with URLs are added.

    Handlers of pytest are left out: what they keep is not masked, and only tests read it.
    """
    found: list[str] = []
    write = logging.Handler.format

    def written(handler: logging.Handler, record: logging.LogRecord) -> str:
        text = write(handler, record)
        if type(handler).__module__ != "_pytest.logging":
            found.extend(_with_urls(text))
        return text

    patch.setattr(logging.Handler, "format", written)
    return found


def files_with_urls(logs: Iterable[Path]) -> list[str]:
    """Return the lines of these files that have more of a URL than its host."""
    return [f"{log.name}: {line}" for log in logs for line in _with_urls(log.read_text(errors="replace"))]


def _with_urls(text: str) -> list[str]:
    told = [line for line in text.splitlines() if "://" in line and not BANNER.search(line)]
    lines = [HOW_TO_WRITE.sub("", line) for line in told]
    return [f"{url[0]!r} in {line[:SHOWN]}" for line in lines if (url := UNMASKED.search(line))]
