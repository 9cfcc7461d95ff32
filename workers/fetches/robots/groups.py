"""Groups: which lines of a robots.txt apply to Weir (RFC 9309, 2.1 and 2.2.1). Pure.

A group is one or more lines that name crawlers, and the rules that follow. Only a rule ends the names: lines of other
kinds, known or not, do not. A Crawl-delay or Request-rate applies to the names right above it, whatever the group. It
does not apply to crawlers that are named after it.

Like other parsers, this one accepts a blank instead of the colon, if one word or a path follows; some misspellings; a
name with a version after it; and any blanks of Unicode around the parts of a line, because people paste them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from weir.workers.fetches.robots.delays import seconds_between

AT_ONCE = 2**15  # characters that are searched in one go: meanwhile, the other threads of the process wait
_LINE = re.compile(
    r"""
    ^[^\S\n]*+
    (user[-\ ]?agent | allow | dis{1,2}allow | dissalow | disalow | diasllow | disallaw
    | crawl[-\ ]?delay | request[-\ ]?rate)
    (?: [^\S\n]*+: | [^\S\n]++ (?= [/*0-9] | [^:\s\#]++ [^\S\n]*+ (?:[\n\#]|\Z) ) )
    [^\S\n]*+ ([^\n\#]*)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_TOKEN = re.compile(r"[a-z_-]*", re.IGNORECASE)  # RFC 9309, 2.2.1
_WORD = re.compile(r"[^\s/]*")
_ALL = re.compile(r"\*(\s|$)")


@dataclass(eq=False, kw_only=True, slots=True)
class Group:
    """What is said to one crawler, or to all: paths as they are written, and the seconds between two requests."""

    is_named: bool = False
    allowed: list[str] = field(default_factory=list)
    disallowed: list[str] = field(default_factory=list)
    delay_s: float | None = None


def group_for(text: str, product: str) -> Group:
    """Return what a robots.txt says to the crawler with this product token: the groups that name it, or those for `*`.

    Groups of one name are joined; of several delays the longest counts. The time grows with the length of the text.
    """
    reader = _Reader(product.lower())
    for key, value in _lines(text):
        kind = key[0].lower()
        if kind == "u":
            reader.name(value)
        elif kind in "ad":
            reader.rule(value, allows=kind == "a")
        else:
            reader.delay(key, value)
    return reader.ours if reader.ours.is_named else reader.everyone


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of each line that has a meaning. Lines end by CR, LF, or both, and by nothing else."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = 0
    while start < len(text):
        end = text.find("\n", start + AT_ONCE) + 1 or len(text)
        yield from _LINE.findall(text[start:end])
        start = end


class _Reader:
    """Reads a robots.txt line by line, and remembers to which groups the next line belongs."""

    def __init__(self, product: str) -> None:
        self.ours, self.everyone = Group(), Group()
        self._product = product
        self._ruled: list[Group] = []  # groups to which a rule in the next line would belong
        self._delayed: list[Group] = []  # groups to which a delay in the next line would belong
        self._has_rule = self._has_delay = False

    def name(self, value: str) -> None:
        if self._has_rule:
            self._ruled = []
        if self._has_rule or self._has_delay:
            self._delayed = []
        self._has_rule = self._has_delay = False
        group = self.ours if self._is_ours(value) else self.everyone if _ALL.match(value) else None
        if group is not None:
            group.is_named = True
            self._ruled = [*self._ruled, group] if group not in self._ruled else self._ruled
            self._delayed = [*self._delayed, group] if group not in self._delayed else self._delayed

    def rule(self, value: str, *, allows: bool) -> None:
        self._has_rule = True
        for group in self._ruled:
            (group.allowed if allows else group.disallowed).append(value.strip())

    def delay(self, key: str, value: str) -> None:
        self._has_delay = True
        if self._delayed and (delay_s := seconds_between(key, value)):
            for group in self._delayed:
                group.delay_s = max(group.delay_s or 0.0, delay_s)

    def _is_ours(self, value: str) -> bool:
        """Return whether this names us: by the RFC's token, or by a whole word if our token has a digit, say."""
        names = {found[0].lower() for found in (_TOKEN.match(value), _WORD.match(value)) if found}
        return bool(self._product) and self._product in names
