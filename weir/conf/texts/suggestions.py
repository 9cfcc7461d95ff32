"""Suggestions for a word or a name that is misspelt."""

from collections.abc import Iterable
from difflib import get_close_matches

_CLOSE = 0.75  # the least ratio by difflib: two letters of eight may differ


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return " Did you mean NAME?" for the known word closest to the given one, and "" if none is close."""
    closest = get_close_matches(given, list(known), n=1, cutoff=_CLOSE)
    return f" Did you mean {closest[0]}?" if closest else ""


def no_such_word(given: str, known: Iterable[str], what: str) -> str:
    """Return sentences that refuse an unknown word because no `what` has this name."""
    words = list(known)
    return f"There is no {what} {given!r}.{did_you_mean(given, words)} The {what}s are {', '.join(words)}"
