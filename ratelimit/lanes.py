"""The names of lanes: pure."""

import re

MAX_LENGTH = 300
_LANE = re.compile(rf"[^\s/@?#\0]{{1,{MAX_LENGTH}}}")


class InvalidLane(ValueError):
    """The text cannot name a lane; the message says what a name looks like."""


def canonical(name: str) -> str:
    """Return the one spelling of a lane's name: lower case, no trailing dot, `:port` kept.

    One site must never have two lanes, so every way in goes through here. Raises InvalidLane for an empty or overlong
    text, and for a URL or a path, which would be a lane of its own for each page.
    """
    lane = name.strip().lower()
    if not lane.startswith("["):
        host, colon, port = lane.partition(":")
        lane = host.rstrip(".") + colon + port
    if not _LANE.fullmatch(lane):
        raise InvalidLane(
            f"{name!r} does not name a site: write its host, such as api.example.com or example.com:8080."
        )
    return lane
