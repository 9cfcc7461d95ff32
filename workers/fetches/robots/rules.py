"""Rules: what a robots.txt says to Weir's user agent (RFC 9309). Pure."""

import re
from collections.abc import Iterator

from protego import Protego

PATH = "/robots.txt"
CLIENT_ERRORS = range(400, 500)  # statuses that mean: there is none (RFC 9309, 2.3.1.3)
MAX_BYTES = 512 * 1024  # the rest of a longer file is cut off; RFC 9309 (2.5) asks for 500 KiB at least
# No more is read of an answer. Compressed, this is always more than MAX_BYTES (deflate adds at most 0.1 %).
MAX_RAW_BYTES = MAX_BYTES + 4_096
# What parsing may cost, in plain lines: a tenth of a second, a quarter for the most hostile ones. MAX_BYTES of plain
# lines are within it, if they are 27 bytes long on average.
MOST_WORK = 20_000
DEAR = 5  # plain lines that a line with a wildcard, an end or an escape in it counts for
DEAR_SIGNS = re.compile(r"[*$%]")
WILD_SIGNS = re.compile(r"[*$]")  # of a line that becomes a regular expression
# What parsed lines take, about: bytes for each, for each with a wildcard or an end, and for each byte of text.
PLAIN_SIZE, WILD_SIZE, BYTE_SIZE = 370, 1_800, 3
LONG = 100  # characters; a longer line counts for several
LONGEST_CRAWL_DELAY_S = 86_400.0
OTHERS = "other crawlers"  # a product token has no blank in it, so this names no crawler
# What protego takes for the beginning of a group: "User-agent: name", and also "user agent name".
# (Possessive: endless blanks are gone through once.)
_GROUP = re.compile(r"\s*+user[-\s]?agent(?:\s*+:|\s++(?![^:]*:(?:\s|$)))(?P<name>[^#]*)", re.IGNORECASE)


def origin_of(url: str) -> str:
    """Return the origin of a URL in its normal form (scheme, host and port), for which one robots.txt speaks."""
    return "/".join(url.split("/", 3)[:3])


def text_of(content: bytes) -> str:
    """Return a robots.txt as text; of one that is too large, the whole lines within MAX_BYTES."""
    if len(content) > MAX_BYTES:
        content = content[:MAX_BYTES]
        content = content[: max(content.rfind(b"\n"), content.rfind(b"\r")) + 1]  # half a line may mean the opposite
    return content.decode("utf-8-sig", "replace").replace("\0", "")  # PostgreSQL stores no NUL


def _first_lines(text: str) -> Iterator[str]:
    """Yield the lines, without blank ones and comments, until parsing them would cost more than MOST_WORK."""
    work = 0
    for line in text.splitlines():
        written = line.lstrip()
        if not written or written[0] == "#":
            continue
        work += (DEAR if DEAR_SIGNS.search(written) else 1) * (1 + len(written) // LONG)
        if work > MOST_WORK:
            return
        yield line


def _size(line: str) -> int:
    escaped = len(line.encode(errors="replace")) * (1 if line.isascii() else 2)  # beyond ASCII, `%E4` stands for a byte
    return (WILD_SIZE if WILD_SIGNS.search(line) else PLAIN_SIZE) + BYTE_SIZE * escaped


class Rules:
    """What a robots.txt says to the crawler with this product token: the groups that name it, or else those for `*`.

    Of one that would take long to parse, only the beginning counts, as of one that is too large.
    """

    def __init__(self, text: str, product: str) -> None:
        self._product = product.lower()
        lines = [self._renamed(line) for line in _first_lines(text)]
        self._robots = Protego.parse("\n".join(lines))
        self.size = sum(map(_size, lines))  # bytes of memory, about

    def allows(self, url: str) -> bool:
        """Tell whether the URL may be fetched: the longest rule that matches decides, Allow before Disallow."""
        return self._robots.can_fetch(url, self._product)

    @property
    def crawl_delay_s(self) -> float | None:
        """The Crawl-delay in seconds, at most a day; None without one, for 0 and for nonsense."""
        delay_s = self._robots.crawl_delay(self._product)
        return min(delay_s, LONGEST_CRAWL_DELAY_S) if delay_s else None

    def _renamed(self, line: str) -> str:
        """Return the line; where it names a crawler, with one of three names: `*`, Weir's product token, or OTHERS.

        Protego keeps each rule once for each crawler that its group names: a page of 16 KB can name 500 crawlers with
        500 rules, which take 18 MB. Protego would also apply the group of `we` to `weir`; RFC 9309 compares whole
        product tokens.
        """
        found = _GROUP.match(line)
        if not found:
            return line
        name = found["name"].strip().lower()
        product = name.partition("/")[0].replace("*", "").strip()
        return f"User-agent: {'*' if name == '*' else self._product if product == self._product else OTHERS}"
