"""Which site somebody may have meant who misspelt its name, at a bounded cost: a million sites are no more than ten.

1. All names that differ in one letter (missing, too much, wrong, or exchanged with its neighbour) are made from the
   given one, and looked up by the index: a few thousand look-ups at most.
2. Where there is none, the names that stand next to the given one in the order of names are compared with it.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from weir.ratelimit.models import Site

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-.:"
LONGEST = 60  # characters of a name of which all variants are made
NEIGHBOURS = 100  # names that are compared, before the given one and after it
CLOSE = 0.75  # of difflib's ratio


def most_similar(name: str) -> str | None:
    """Return the name of a site that is most like this one, which is no site's; None where none is like it."""
    variants = {*one_letter_off(name), f"www.{name}", name.removeprefix("www.")} - {name}
    found = list(Site.objects.filter(name__in=sorted(variants)).values_list("name", flat=True)[:NEIGHBOURS])
    closest = get_close_matches(name, found or list(_neighbours(name)), n=1, cutoff=0.0 if found else CLOSE)
    return closest[0] if closest else None


def one_letter_off(name: str) -> Iterator[str]:
    """Yield the names from which one wrong stroke leads to this one; of a very long name, none."""
    if len(name) > LONGEST:
        return
    for place in range(len(name) + 1):
        before, after = name[:place], name[place:]
        yield from (f"{before}{letter}{after}" for letter in LETTERS)
        if after:
            yield before + after[1:]
            yield from (f"{before}{letter}{after[1:]}" for letter in LETTERS)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


def _neighbours(name: str) -> Iterator[str]:
    names = Site.objects.values_list("name", flat=True)
    yield from names.filter(name__lt=name).order_by("-name")[:NEIGHBOURS]
    yield from names.filter(name__gt=name).order_by("name")[:NEIGHBOURS]
