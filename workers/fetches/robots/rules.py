"""Rules: what a robots.txt says to Weir's user agent (RFC 9309). Pure.

Files of half a megabyte and URLs of many thousand characters come from strangers, so all work has a bound:

- The time to read a file grows with its length.
- Rules without `*` are looked up: a URL is cut to each length that a rule has, and there are few such lengths.
- Rules with `*` are tried one after the other, the longest first, until none is left that could change the outcome.
  The time for each grows with the length of the URL. A file may have tens of thousands of them, so `trial` works in
  steps (trials.py).
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from weir.workers.fetches.robots.groups import group_for
from weir.workers.fetches.robots.paths import canonical, path_of, plain, with_plain_query

PATH = "/robots.txt"
SUCCESS = range(200, 300)
CLIENT_ERRORS = range(400, 500)  # statuses that mean that there is no robots.txt (RFC 9309, 2.3.1.3)
MAX_BYTES = 512 * 1024  # the rest of a longer file is cut off; RFC 9309 (2.5) asks for 500 KiB at least
# No more bytes of an answer are read. So many compressed bytes hold more than MAX_BYTES (deflate adds at most 0.1 %).
MAX_RAW_BYTES = MAX_BYTES + 4_096
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # by their marks
# The work of one step of a trial: about half a millisecond. For each rule with `*`, the characters of the URL are
# counted, and those of the rule, each of which counts as RULE_CHARACTER.
STEP, RULE_CHARACTER = 200_000, 20
LONG_URL = 5_000  # characters: to bring its path into the form of rules takes half a millisecond
ALLOWED = 1  # the rank if no rule matches
# The bytes that rules take, about: at all, for each rule without `*`, with `*`, for each length; and one a character.
SIZE, PLAIN_SIZE, WILD_SIZE, LENGTH_SIZE = 800, 95, 70, 150
_AS_ESCAPES = {0xDC00 + code: f"%{code:02X}" for code in range(128, 256)}
_UNPRINTABLE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_STARS = re.compile(r"\*{2,}")
_HOME = re.compile(r"/index\.html?$")


def origin_of(url: str) -> str:
    """Return the origin of a URL as it is sent (scheme, host and port), for which one robots.txt counts."""
    return "/".join(url.split("/", 3)[:3])


def text_of(content: bytes) -> str:
    """Return a robots.txt as text; if it is too large, only the whole lines within MAX_BYTES.

    RFC 9309 asks for UTF-8. Bytes that are not UTF-8 become escapes, as they are in a URL. UTF-16 is recognised by its
    mark, because some editors write it: an operator who wrote `Disallow: /` in it means it.
    """
    is_cut, content = len(content) > MAX_BYTES, content[:MAX_BYTES]
    coding = UTF_16.get(content[:2]) if b"\0" in content[2:4] else None  # in ASCII text, half of the bytes are NUL
    text = content[2:].decode(coding, "replace") if coding else _utf_8(content)
    if is_cut:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]  # half a line may mean the opposite
    return text.replace("\0", "")  # PostgreSQL cannot store NUL


def _utf_8(content: bytes) -> str:
    for length in (3, 2, 1):  # a mark that is cut must not hide the first line
        content = content.removeprefix(BYTE_ORDER_MARK[:length])
    text = content.decode(errors="surrogateescape")
    return text if text.isascii() else text.translate(_AS_ESCAPES)


def is_text(content: bytes) -> bool:
    """Return whether the content begins like a text, whatever the headers of its answer say."""
    return not _UNPRINTABLE.search(content[:1_000])


class Rules:
    """What a robots.txt says to the crawler with this product token: the groups that name it, or else those for `*`.

    A rule's rank is its length, doubled, and one more if it allows: the highest that matches decides.
    """

    def __init__(self, text: str, product: str) -> None:
        group = group_for(text, product)
        self.crawl_delay_s = group.delay_s  # seconds, at most a day; None without one
        self._beginnings: dict[str, int] = {}  # ranks, by the beginning of a path
        self._wholes: dict[str, int] = {}  # ranks, by the whole path
        self._wild: defaultdict[int, list[str]] = defaultdict(list)  # rules with `*`, by rank
        for rules, allows in ((group.disallowed, False), (group.allowed, True)):
            self._add_all(rules, allows=allows)
        self._lengths = sorted({len(beginning) for beginning in self._beginnings})
        self._ranks = sorted(self._wild, reverse=True)
        self.size = self._size()  # bytes of memory, about

    def allows(self, url: str) -> bool:
        """Return whether the URL may be fetched: the longest rule that matches decides, Allow before Disallow."""
        return next(verdict for verdict in self.trial(url) if verdict is not None)

    def trial(self, url: str) -> Iterator[bool | None]:
        """Yield None after each STEP of work, and before a long URL is read; last of all, what `allows` returns."""
        if len(url) > LONG_URL:
            yield None
        path = path_of(url)
        query_at = path.find("?") + 1 or len(path) + 1
        best, work = self._looked_up(path), 0
        if path == PATH:  # allowed whatever is said (RFC 9309, 2.2.2)
            yield True
            return
        for rank in self._ranks:
            if rank < best:
                break
            for rule in self._wild[rank]:
                work += len(path) + RULE_CHARACTER * len(rule)
                if work > STEP:  # before the work is done: one rule alone may be more than a step
                    work = 0
                    yield None
                if _matches(rule, path, query_at):
                    best = rank
                    break
        yield bool(best & 1)

    def _add_all(self, rules: list[str], *, allows: bool) -> None:
        """Add these rules, once each. A rule that does not begin with `/` or `*` matches nothing."""
        distinct = list(dict.fromkeys(rule for rule in rules if rule[:1] in ("/", "*")))
        start = 0
        while start < len(distinct):
            some = distinct[start : start + 1_000]
            for rule in canonical("\n".join(some)).split("\n"):
                self._add(rule, allows=allows)
            start += len(some)

    def _add(self, rule: str, *, allows: bool) -> None:
        if "%" in rule:
            rule = with_plain_query(rule)
        rank = 2 * len(rule) + allows
        if "$" in rule:
            end = rule[-1] == "$"
            rule = rule[: len(rule) - end].replace("$", "%24") + "$" * end
        if "*" in rule:
            rule = _STARS.sub("*", rule).rstrip("*")
        if "*" in rule:
            self._wild[rank].append(rule)
        elif rule[-1:] == "$":
            self._wholes[rule[:-1]] = max(rank, self._wholes.get(rule[:-1], 0))
        else:
            self._beginnings[rule] = max(rank, self._beginnings.get(rule, 0))
        if allows and _HOME.search(rule):  # allowing it allows the folder's page, too, as for Google
            self._add(rule[: rule.rindex("/") + 1] + "$", allows=True)

    def _looked_up(self, path: str) -> int:
        """Return the highest rank of the rules without `*` that match."""
        best = max(ALLOWED, self._wholes.get(path, 0))
        for length in self._lengths:
            if length > len(path):
                break
            best = max(best, self._beginnings.get(path[:length], 0))
        return best

    def _size(self) -> int:
        plain_rules = [*self._beginnings, *self._wholes]
        wild_rules = [rule for rules in self._wild.values() for rule in rules]
        characters = sum(map(len, plain_rules)) + sum(map(len, wild_rules))
        lengths = len(self._lengths) + len(self._ranks)
        return SIZE + PLAIN_SIZE * len(plain_rules) + WILD_SIZE * len(wild_rules) + LENGTH_SIZE * lengths + characters


def _matches(rule: str, path: str, query_at: int) -> bool:
    """Return whether a rule with `*` matches: each piece is found as early as possible, after the one before."""
    if len(rule) > 4 * len(path) + 4:  # no piece is empty, and an escape may stand for one character
        return False
    first, *pieces = rule.split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = pieces.pop()
    for piece in pieces:
        at = _end_of(piece, path, at, query_at)
        if at < 0:
            return False
    if last[-1:] != "$":
        return _end_of(last, path, at, query_at) >= 0
    return _ends(path, last[:-1], at) or ("%" in last and _ends(path, plain(last[:-1]), max(at, query_at)))


def _end_of(piece: str, path: str, at: int, query_at: int) -> int:
    """Return where the first occurrence of a piece at `at` or after it ends; -1 without one.

    In the query, an escaped `/` or `?` counts as a plain one.
    """
    found = path.find(piece, at)
    if found < 0 and "%" in piece:
        piece = plain(piece)
        found = path.find(piece, max(at, query_at))
    return found + len(piece) if found >= 0 else -1


def _ends(path: str, piece: str, at: int) -> bool:
    return path.endswith(piece) and len(path) - len(piece) >= at
