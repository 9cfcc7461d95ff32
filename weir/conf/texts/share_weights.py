"""Shares: the names that fetches of a site have for whom they are, and the weights of these names. Pure.

A share of weight 3 gets three fetches in each of its turns, where others get one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

LONGEST_SHARE: Final = 100  # characters
HEAVIEST: Final = 100  # so that one turn of a share does not keep the others waiting for long
MOST_WEIGHTS: Final = 1_000  # of one site: they are read with its row


def usable_share(share: str | None) -> str | None:
    """Return the name of a share as it is stored; None for none. Raises ValueError or TypeError."""
    if share is None or share == "":
        return None
    if not isinstance(share, str):
        raise TypeError(f"share must be a text such as 'tenant-7', not {share!r}.")
    if len(share) > LONGEST_SHARE or not share.isprintable():
        raise ValueError(f"share must be at most {LONGEST_SHARE} printable characters, such as 'tenant-7'.")
    return share


def usable_weights(weights: Mapping[str, int] | Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the weights as they are stored. Raises ValueError, and TypeError for a name that is no text."""
    usable: dict[str, int] = {}
    for name, weight in weights.items() if isinstance(weights, Mapping) else weights:
        share = usable_share(name)
        if share is None:
            raise ValueError("weights must name shares: what has no share has the weight 1.")
        if type(weight) is not int or not 1 <= weight <= HEAVIEST:
            raise ValueError(f"weights must be whole numbers from 1 to {HEAVIEST}; that of {share} is {weight!r}.")
        if share in usable:
            raise ValueError(f"weights must name each share once, but {share} is there twice.")
        usable[share] = weight
    if len(usable) > MOST_WEIGHTS:
        raise ValueError(f"weights must be of at most {MOST_WEIGHTS:,} shares, not {len(usable):,}: 1 is the default.")
    return usable


def parse_weight(text: str) -> tuple[str, int]:
    """Return the share and the weight of a text such as `tenant-7=3`. Raises ValueError."""
    name, equals, number = text.strip().rpartition("=")
    if not (name and equals and number.isascii() and number.isdecimal() and len(number) <= len(str(HEAVIEST))):
        raise ValueError(f"must be a share and its weight, 1 to {HEAVIEST}, such as 'tenant-7=3'")
    return name, int(number)


def written_weights(weights: Mapping[str, int]) -> list[str]:
    """Return the weights as texts, as `parse_weight` reads them."""
    return [f"{name}={weight}" for name, weight in weights.items()]
