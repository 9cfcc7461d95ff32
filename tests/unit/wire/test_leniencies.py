"""What is read though it breaks the standards: all of it is in a table of docs/explanation/wire.md."""

from pathlib import Path

import pytest

from tests.cases import for_each
from tests.unit.wire.test_answers import CHUNKED, OK, PAGE, headed, read, told
from weir.workers.fetches.fetcher.wire import leniencies
from weir.workers.fetches.fetcher.wire.answers import NotHttp

DOCS = Path(__file__).parents[3] / "docs" / "explanation" / "wire.md"
CHUNKS = b"4\r\npage\r\n0\r\n\r\n"

# Answers that bring the page, by what the table says of them.
LENIENT: dict[str, list[bytes]] = {
    "`http/1.1` in small letters": [headed(b"Content-Length: 4", status=b"http/1.1 200 OK")],
    "several blanks in the first line": [headed(b"Content-Length: 4", status=b"HTTP/1.1  200   OK")],
    "`HTTP/1` alone": [headed(b"Content-Length: 4", status=b"HTTP/1 200")],
    "a line without a colon": [headed(b"no colon;", b"Content-Length: 4")],
    "a name that is none, or lacks": [
        headed(b": no name", b"Content-Length: 4"),
        headed(b"A name: with a blank", b"Content-Length: 4"),
        headed(b"X-\xc3\xa9: not ASCII", b"Content-Length: 4"),
    ],
    "blanks before a colon": [headed(b"Content-Length : 4")],
    "a line that is folded": [headed(b"X: one", b" two", b"\tthree", b"Content-Length: 4")],
    "control characters in a value, a CR alone among them": [
        headed(b"X: a\x00\x01b\rLocation: c", b"Content-Length: 4"),
    ],
    "equal Content-Lengths, in several lines or in one": [
        headed(b"Content-Length: 4", b"Content-Length: 4"),
        headed(b"Content-Length: 4, 4"),
    ],
    "several lines of Transfer-Encoding": [
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + CHUNKS
    ],
    "a Transfer-Encoding of `identity`": [headed(b"Transfer-Encoding: identity", b"Content-Length: 4")],
    "blanks behind a Transfer-Encoding": [OK + b"Transfer-Encoding: chunked\t\r\n\r\n" + CHUNKS],
    "a Content-Length beside chunks": [
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    ],
    "bytes behind the end of an answer": [PAGE + b"more", PAGE + PAGE, CHUNKED + CHUNKS + b"more"],
    "heads whose lines end in LF alone": [b"HTTP/1.1 200 OK\nContent-Length: 4\n\npage"],
    "an empty line before the first one": [b"\r\n" + PAGE],
    "blanks behind the size of a chunk": [CHUNKED + CHUNKS.replace(b"4\r", b"4 \r")],
    "a Content-Length, or control characters, in trailers": [
        CHUNKED + b"4\r\npage\r\n0\r\nContent-Length: 9\r\n\r\n",
        CHUNKED + b"4\r\npage\r\n0\r\nX: a\x01b\r\n\r\n",
    ],
}


def table(head: str) -> list[list[str]]:
    """Return the rows of the table of the page whose first head this is."""
    _, _, behind = DOCS.read_text().partition(f"| {head} |")
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in behind.partition("\n\n")[0].splitlines()[2:]
    ]


def test_the_tables_have_each_of_them_and_say_what_becomes_of_the_connection() -> None:
    """Each row has answers here, which bring the page; a connection is kept only where nothing was guessed."""
    rows = {
        what: is_kept
        for is_kept, connection in ((False, "closed"), (True, "kept"))
        for what, _ in table(f"What comes, and the connection is {connection} | Is read as")
    }
    assert list(rows) == list(LENIENT)
    for what, is_kept in rows.items():
        for answer in LENIENT[what]:
            assert told(read([answer])) == (200, b"page", True, is_kept), answer


@for_each("size", [1, 7])
def test_they_are_read_however_they_are_cut(size: int) -> None:
    """A byte at a time, or a few: the same status, body and end."""
    for answer in (answer for answers in LENIENT.values() for answer in answers):
        pieces = (answer[start : start + size] for start in range(0, len(answer), size))
        assert told(read(pieces)) == told(read([answer])), answer


@pytest.mark.parametrize("mend", leniencies.LENIENCIES)
def test_each_mends_something(mend: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, an answer of the table is read otherwise, or not at all."""
    monkeypatch.setattr(leniencies, "LENIENCIES", tuple(each for each in leniencies.LENIENCIES if each is not mend))

    def is_read(answer: bytes) -> bool:
        try:
            return told(read([answer]))[:3] == (200, b"page", True)
        except NotHttp:
            return False

    assert not all(is_read(answer) for answers in LENIENT.values() for answer in answers)
