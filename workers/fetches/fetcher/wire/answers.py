"""Answers: one HTTP/1.1 answer, read from the bytes of a connection, within a budget. Pure: no socket, no clock.

llhttp (through httptools) parses the bytes. It gets each head as a whole, so that the lines are counted before parsing
them costs anything, and a head that it refuses can be mended (leniencies.py).

All parts of an answer are bounded in bytes and in number: interim answers, lines of its head, pieces and framing of its
body. So no answer takes more than a tenth of a second of processor time to read.
"""

import re
from enum import Enum
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from weir.workers.fetches.fetcher.wire.leniencies import mended

MOST_HEAD = 2**18  # bytes of all heads of one answer, as browsers accept
FREE_HEADS = 2**15  # bytes of heads, more than sites need; a further byte may cost three times as much as one of a body
MOST_LINES = 256  # lines of one head
MOST_INTERIM = 20  # interim answers (1xx) before the answer that counts
MOST_PIECES = 500_000  # pieces of a body: its chunks, or what single reads returned
PIECE = 256  # bytes: a smaller piece costs more than its length explains
FREE_PIECES = 2_000  # small pieces of a body that is read as it comes; an answer with more is read in its turn
MOST_FRAMING = 2**18  # bytes of chunk sizes, extensions and trailers, beyond the length of the body itself
A_LINE = 200  # bytes that one line takes in memory, besides its text
AS_JSON = 1  # further bytes of an odd character when it is stored: for its escape, or the second byte in UTF-8
INTERIM = range(100, 200)
SWITCHING = 101
_HEAD_END = re.compile(rb"\n\r?\n")
_BEGINNING = b"HTTP/"
# Several lines, or a blank at the end: llhttp would see another end of the body than we do.
_ODD_TRANSFER = re.compile(rb"\ntransfer-encoding[^\n]*(?:[ \t]\r?\n|\n(?:[^\n]*\n)*?transfer-encoding)", re.IGNORECASE)
_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))


class NotHttp(Exception):
    """What came is not an answer in HTTP/1.1; the message says why."""


class AnswerTooLarge(Exception):
    """A part of the answer is larger than is allowed; the message says which."""


class Section(Enum):
    """The part of the answer that is read next."""

    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"  # the answer is whole, or no more of it is read


class AnswerReader:
    """One answer, while it is read. `status_code`, `headers` and `body` have the parts that have come.

    The answer to a HEAD has no body, whatever its head says of one: `has_body` is False.
    """

    def __init__(self, most_body: int, *, has_body: bool = True) -> None:
        self.section = Section.HEAD
        self.status_code = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.taken = 0  # bytes of the body that are not in `body` any more
        self.length: int | None = None  # of the body, as the answer states it
        self.is_too_large = False  # the body is longer than `most_body`
        self.keeps_alive = False  # the connection may carry another request
        self.has_begun = False  # a byte of the answer has come
        self.interims = 0  # interim answers that have come
        self.most_body = most_body
        self._has_body = has_body
        self._unread = bytearray()  # bytes of a head that has not come whole
        self._heads = 0  # bytes of all heads that have come
        self._held_by_heads = 0
        self._came = 0  # bytes of the body, with its framing
        self._pieces = 0
        self._until_end = False  # the body ends with the connection
        self._is_read = False  # the head has been parsed
        self._is_whole = False
        self._was_mended = False
        self._parser: Any = None

    @property
    def has_head(self) -> bool:
        """Return whether the head of the answer that counts has come."""
        return self.section is not Section.HEAD

    @property
    def is_between(self) -> bool:
        """Return whether an interim answer has come, and nothing after it."""
        return self.interims > 0 and not self._unread

    @property
    def ends_with_connection(self) -> bool:
        """Return whether the body ends only with the connection."""
        return self.section is Section.BODY and self._until_end

    def take(self) -> bytes:
        """Return the bytes of `body`, and hold them no longer: somebody else keeps them. The next ones follow them."""
        taken = bytes(self.body)
        self.taken += len(taken)
        self.body = bytearray()
        return taken

    def held(self) -> int:
        """Return how many bytes of memory the answer holds, about; its headers count as they will be stored."""
        # A head that is not parsed yet counts as large as it can become: many answers must not grow beyond all bounds.
        return self._held_by_heads + (1 + AS_JSON) * len(self._unread) + len(self.body)

    def may_hold(self) -> int:
        """Return how many bytes the answer may hold in the end."""
        if not self.has_head:
            return self.held() + MOST_HEAD + self.most_body
        return self._held_by_heads + min(self.most_body, self.most_body if self.length is None else self.length)

    def is_costly(self) -> bool:
        """Return whether the answer takes more time to read, or to store, than its length explains."""
        heads = self._heads + len(self._unread)
        return heads > FREE_HEADS or self._pieces > FREE_PIECES + self._size // PIECE

    def feed(self, data: memoryview) -> None:
        """Read these bytes; raises NotHttp and AnswerTooLarge, after which no more may be fed."""
        self.has_begun = True
        if self.section is Section.HEAD:
            self._feed_heads(data)
        elif self.section is Section.BODY:
            self._feed_body(data)
        else:
            self.keeps_alive = False

    def end(self) -> bool:
        """Record that the site has ended the connection; return whether the answer is whole now, or was before."""
        if self.section is Section.BODY and self._until_end:
            self.section = Section.NOTHING
        return self.section is Section.NOTHING

    def close(self) -> None:
        """Let go of the parser, which refers back to this reader: a fetch leaves no work to the garbage collector."""
        self._parser = None

    @property
    def _size(self) -> int:
        """Return how many bytes of the body have come."""
        return self.taken + len(self.body)

    # --- heads ---

    def _feed_heads(self, data: memoryview) -> None:
        looked_at = max(0, len(self._unread) - 2)  # the end of the head may lie across two reads
        self._unread += data
        while self.section is Section.HEAD:
            if self._unread.startswith((b"\r", b"\n")):  # some servers write an empty line after the last body
                size = len(self._unread)
                self._unread = self._unread.lstrip(b"\r\n")
                self._heads += size - len(self._unread)
                looked_at = 0
            if not _BEGINNING.startswith(self._unread[: len(_BEGINNING)].upper()):
                raise NotHttp(f"not an answer in HTTP: it begins with {bytes(self._unread[:20])!r}")
            found = _HEAD_END.search(self._unread, looked_at)
            size = found.end() if found else len(self._unread)
            if self._heads + size > MOST_HEAD:
                raise AnswerTooLarge(f"the headers are larger than {MOST_HEAD} bytes together")
            if found is None:
                return
            head, self._unread, looked_at = bytes(self._unread[:size]), self._unread[size:], 0
            self._heads += size
            self._read_head(head)
        if rest := self._unread:
            self._unread = bytearray()
            self.feed(memoryview(rest))

    def _read_head(self, head: bytes) -> None:
        if head.count(b"\n") > MOST_LINES + 2:  # the first line and the empty one are counted, too
            raise AnswerTooLarge(f"the answer has more than {MOST_LINES} header lines")
        if _ODD_TRANSFER.search(head):
            self._read_mended(head, None)
        else:
            self._begin()
            try:
                self._parser.feed_data(head)
            except HttpParserUpgrade:
                pass
            except HttpParserError as error:
                self._read_mended(head, error)
        self._note_head()

    def _begin(self, *, lenient: bool = False) -> None:
        self.headers = []
        self._is_read = self._is_whole = False
        self._parser = HttpResponseParser(self)
        # Line ends of LF alone, and blanks after the size of a chunk, are read, as by browsers and curl.
        self._parser.set_dangerous_leniencies(
            lenient_headers=lenient, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def _read_mended(self, head: bytes, error: Exception | None) -> None:
        again = mended(head)
        if again is None:
            raise NotHttp(f"not an answer in HTTP: {error or 'its first line is that of no answer'}") from error
        self._begin(lenient=True)
        try:
            self._parser.feed_data(again)
        except HttpParserUpgrade:
            pass
        except HttpParserError as still:
            raise NotHttp(f"not an answer in HTTP: {still}") from still
        self._was_mended = True
        self.keeps_alive = False

    def _note_head(self) -> None:
        if not self._is_read:
            raise NotHttp("not an answer in HTTP: its head does not end")
        self.status_code = self._parser.get_status_code()
        if self.status_code in INTERIM and self.status_code != SWITCHING:
            self.interims += 1
            if self.interims > MOST_INTERIM:
                raise AnswerTooLarge(f"the answer has more than {MOST_INTERIM} interim answers (1xx) before it")
            return
        if self.status_code <= SWITCHING:
            raise NotHttp(f"the site answers {self.status_code:03}, which answers no request")
        self._until_end = True
        for field, value in self.headers:
            self._held_by_heads += len(field) + len(value) + A_LINE + AS_JSON * len(value.translate(None, _PLAIN))
            name = field.lower()
            if name == b"content-length":
                self._until_end, self.length = False, int(value.lstrip(b"0") or b"0")
            elif name == b"transfer-encoding" and value.lower().rstrip().endswith(b"chunked"):
                self._until_end = False
        if not self._has_body:
            self.section, self.keeps_alive = Section.NOTHING, self._lets_go_on()
            return
        self.section = Section.NOTHING if self._is_whole else Section.BODY
        # The end of the body is settled: what the trailers say about it no longer counts (RFC 9110, 6.5.1).
        self._parser.set_dangerous_leniencies(lenient_headers=True, lenient_chunked_length=True)

    def _lets_go_on(self) -> bool:
        """Return whether an answer without a body keeps the connection: the parser asks for a length of the body."""
        said = b",".join(value.lower() for name, value in self.headers if name.lower() == b"connection")
        closes = b"close" in said or (self._parser.get_http_version() != "1.1" and b"keep-alive" not in said)
        return not closes and not self._was_mended

    # --- bodies ---

    def _feed_body(self, data: memoryview) -> None:
        self._came += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self.keeps_alive = False
            if not self._is_whole:
                raise NotHttp(f"the body is broken: {error}") from error
        if self._is_whole:
            self.section = Section.NOTHING
        if self._size > self.most_body:
            self.is_too_large, self.keeps_alive, self.section = True, False, Section.NOTHING
        elif self._pieces > MOST_PIECES:
            raise AnswerTooLarge(f"the body comes in more than {MOST_PIECES} pieces")
        elif self._came - self._size > MOST_FRAMING + self._size:
            raise AnswerTooLarge("the body has more framing than content")

    # --- what httptools calls ---

    def on_message_begin(self) -> None:
        if self._is_whole:  # bytes after the answer look like another answer, which was not requested
            self.keeps_alive = False
            raise NotHttp("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_read:  # a line that comes later is a trailer
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self._is_read = True

    def on_body(self, data: bytes) -> None:
        self._pieces += 1
        self.body += data

    def on_message_complete(self) -> None:
        self._is_whole = True
        self.keeps_alive = self._parser.should_keep_alive() and not self._was_mended
