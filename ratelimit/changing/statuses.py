"""Statuses of HTTP as people write them: 403, 999. Pure."""

import re

_LISTED = re.compile(r"[0-9]{3}(?:[ ,]{1,3}[0-9]{3})*", re.ASCII)


def parse_statuses(text: str) -> list[int]:
    """Return the statuses of a list that commas or blanks separate. Raises ValueError."""
    if not _LISTED.fullmatch(text.strip()):
        raise ValueError(f"must be statuses such as 403,999, not {text!r}")
    return [int(status) for status in re.findall(r"[0-9]+", text)]


def written(statuses: list[int]) -> str:
    """Return the statuses as people write them, separated by commas."""
    return ", ".join(map(str, statuses))
