"""Routes of kinds: through which relays the e-mails of a kind are sent. Pure functions, which weir.conf calls, too.

A route has a pattern: one kind (`password.reset`), all kinds with the same beginning (`newsletter.*`), or all other
kinds (`*`). If several patterns match a kind, the longest pattern counts.

A message quotes only text that is known to be a pattern or a name. Other text may be a part of a URL, with a password.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

EXAMPLE = "newsletter.*=bulk; *=main, bulk"
OTHERS = "*"  # the pattern of all kinds that no other pattern covers

_PATTERN = re.compile(r"\*|\w+(\.\w+)*(\.\*)?", re.ASCII)
_RELAY = re.compile(r"(\w[\w-]*=)?(django:|resend:)?[\w.-]+(:[0-9]+)?|(\w[\w-]*=)?(resend:)?\[[0-9a-f:.]+\](:[0-9]+)?")
_BETWEEN = re.compile(r"[\s,]+")
_LONGEST = 100  # characters of a pattern: kinds have no more


def read(text: str) -> dict[str, list[str]]:
    """Return the relays of each pattern, from the text of an environment variable.

    Raises ValueError, whose message is a clause that says what is wrong.
    """
    routes: dict[str, list[str]] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        pattern, equals, relays = (word.strip() for word in part.partition("="))
        if not equals:
            raise ValueError("each route needs a = between kinds and relays")
        if pattern in routes:
            raise ValueError(f"{pattern} has two routes")
        routes[pattern] = [name for name in _BETWEEN.split(relays) if name]
    if clause := malformed(routes):
        raise ValueError(clause)
    return routes


def malformed(routes: Mapping[str, Sequence[str]]) -> str:
    """Return a clause that says what is wrong with the routes, whatever relays exist; empty if nothing is wrong."""
    for pattern, relays in routes.items():
        if not _PATTERN.fullmatch(pattern) or len(pattern) > _LONGEST:
            return "before a = there must be a kind, PREFIX.* or *"
        if isinstance(relays, str) or not relays:
            return f"{pattern} names no relay"  # a str would be read as a list of letters
        if not all(_RELAY.fullmatch(name) for name in relays):
            return f"{pattern} must have names of relays, not their URLs"
        if len(set(relays)) < len(relays):
            return f"{pattern} names a relay twice"
    if routes and OTHERS not in routes:
        return "it says nothing of other kinds: add *=RELAY, or *=RELAY, RELAY in the order in which they are used"
    return ""


def of_kind(kind: str, patterns: Iterable[str]) -> str:
    """Return which of these patterns counts for the kind; `*` if no other does. `claim.sql` has the same rule."""
    fitting = [it for it in patterns if kind == it or (is_open(it) and kind.startswith(start(it)))]
    return max(fitting, key=lambda pattern: len(start(pattern)), default=OTHERS)


def start(pattern: str) -> str:
    """Return the pattern without its asterisk: the common beginning of the kinds, or the kind."""
    return pattern.removesuffix(OTHERS)


def is_open(pattern: str) -> bool:
    """Return whether the pattern ends with an asterisk, and so stands for all kinds with the same beginning."""
    return pattern.endswith(OTHERS)
