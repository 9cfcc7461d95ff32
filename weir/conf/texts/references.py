"""References: the names by which callers know what they asked for. Pure."""

from collections.abc import Sequence
from typing import Final

LONGEST_REFERENCE: Final = 200  # characters


def usable_reference(reference: str | None) -> str | None:
    """Return a reference as it is stored; None for none. Raises ValueError or TypeError."""
    if reference is None or reference == "":
        return None
    if not isinstance(reference, str):
        raise TypeError(f"reference must be a text such as 'page-42', not {reference!r}.")
    if len(reference) > LONGEST_REFERENCE or not reference.isprintable():
        raise ValueError(f"reference must be at most {LONGEST_REFERENCE} printable characters, such as 'page-42'.")
    return reference


def usable_references(given: str | Sequence[str | None] | None, count: int) -> list[str | None]:
    """Return the reference of each of `count` things: the one that is given, or their own. Raises as above."""
    if given is None or isinstance(given, str):
        return [usable_reference(given)] * count
    if not isinstance(given, Sequence):
        raise TypeError(f"reference must be a text, or a list with one for each URL, not {given!r}.")
    if len(given) != count:
        raise ValueError(f"reference must have one for each URL: there are {len(given):,} for {count:,} URLs.")
    return [usable_reference(each) for each in given]
