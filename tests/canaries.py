"""Canaries: whether logs hold what they must not, wherever a URL may have come into them."""

import re
from collections.abc import Iterable
from pathlib import Path

# A URL of whose path, query or user information anything is left.
UNMASKED = re.compile(r"""://(?:[^\s/"'@]*@|[^\s/"'\\]*[/?#](?!\*\*\*)[^\s"'\\)>:,.])\S*""")
HOW_TO_WRITE = re.compile(r"\S*:PASSWORD@HOST\S*")  # a URL, in a sentence of Weir's own
# What Celery prints of itself when it starts: no line of the log.
BANNER = re.compile(r"^\W+ (?:transport|results|broker)\W")


def assert_no_url_is_logged(logs: Iterable[Path], *also: str) -> None:
    """State that no line has more of a URL than its host, or holds one of these texts."""
    written = [(log.name, line) for log in logs for line in log.read_text(errors="replace").splitlines()]
    told = [f"{name}: {line[:500]}" for name, line in written if any(text in line for text in also)]
    assert not told, told[:3]
    for name, line in written:
        found = None if BANNER.search(line) else UNMASKED.search(HOW_TO_WRITE.sub("", line))
        assert found is None, f"{name} has {found and found[0]!r}: {line[:500]}"
