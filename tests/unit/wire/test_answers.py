"""Answers: what is read of the bytes of a site, what is mended, and what an answer may consist of."""

import json
from collections.abc import Iterable

import pytest

from tests.cases import for_each
from tests.proportion import times_as_long
from weir.workers.fetches.fetcher.wire.answers import (
    A_LINE,
    FREE_HEADS,
    MOST_HEAD,
    MOST_INTERIM,
    MOST_LINES,
    AnswerReader,
    AnswerTooLarge,
    NotHttp,
    Section,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PAGE = OK + b"Content-Length: 4\r\n\r\npage"


def read(pieces: Iterable[bytes], most_body: int = 1_000) -> AnswerReader:
    """Feed these bytes, as they come."""
    reader = AnswerReader(most_body)
    for piece in pieces:
        reader.feed(memoryview(piece))
    reader.close()
    return reader


def told(reader: AnswerReader) -> tuple[int, bytes, bool, bool]:
    """Return the status, the body, and whether the answer is whole, and its connection may be used again."""
    return reader.status_code, bytes(reader.body), reader.section is Section.NOTHING, reader.keeps_alive


def headed(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join([status, *lines, b"", b"page"])


# What each answer becomes: its status, its body, whether it is whole, and whether the connection may be used again.
ANSWERS: dict[bytes, tuple[int, bytes, bool, bool]] = {
    PAGE: (200, b"page", True, True),
    OK + b"Content-Length: 0\r\n\r\n": (200, b"", True, True),
    b"HTTP/1.1 204 No Content\r\n\r\n": (204, b"", True, True),
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n": (304, b"", True, True),
    CHUNKED + b"2\r\npa\r\n2;a=b\r\nge\r\n0\r\nTrailer: x\r\n\r\n": (200, b"page", True, True),
    b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\npage": (200, b"page", True, False),
    OK + b"Connection: close\r\nContent-Length: 4\r\n\r\npage": (200, b"page", True, False),
    OK + b"\r\npage": (200, b"page", False, False),  # until the connection ends
    OK + b"Content-Length: 9\r\n\r\npage": (200, b"page", False, False),
    CHUNKED + b"4\r\npage\r\n": (200, b"page", False, False),
    # Interim answers
    b"HTTP/1.1 100 Continue\r\n\r\n" + PAGE: (200, b"page", True, True),
    b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * MOST_INTERIM + PAGE: (200, b"page", True, True),
    # What nobody asked for, behind the answer: it is dropped with the connection
    PAGE + PAGE: (200, b"page", True, False),
    PAGE + b"more": (200, b"page", True, False),
    OK + b"Connection: close\r\nContent-Length: 4\r\n\r\npagemore": (200, b"page", True, False),
    OK + b"Content-Length: 0\r\n\r\npage": (200, b"", True, False),
    b"HTTP/1.1 204 No Content\r\n\r\npage": (204, b"", True, False),
    b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n<head>": (302, b"", True, False),
    headed(b"Content-Length: " + b"0" * 5_000 + b"4"): (200, b"page", True, True),
    headed(b"X: 1", b"Content-Length: 4", b"Y: \x80\xff"): (200, b"page", True, True),
}
# What is no answer, with a part of what is said.
NO_ANSWERS: dict[bytes, str] = {
    b"220 mail.example ESMTP\r\n": "it begins with",
    b"SSH-2.0": "it begins with",
    b"<html>page</html>": "it begins with",
    b"HTTP/1.1 200OK\r\n\r\n": "not an answer in HTTP",
    b"HTTP/2 200 OK\r\nTransfer-Encoding: chunked \r\n\r\n": "its first line is that of no answer",
    b"HTTP/1.1 1000 OK\r\n\r\n": "not an answer in HTTP",
    b"HTTP/1.1 099 OK\r\n\r\n": "the site answers 099",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n": "the site answers 101",
    headed(b"Content-Length: 4", b"Content-Length: 5"): "Content-Length",
    headed(b"Content-Length: -4"): "Content-Length",
    headed(b"Content-Length: 5\x010"): "Content-Length",
    headed(b"Content-Length: 99999999999999999999999"): "Content-Length",
    CHUNKED + b"<html>": "the body is broken",
    CHUNKED + b"-4\r\npage": "the body is broken",
}


@for_each("size", [1, 7, 2**16])
def test_each_answer_is_read_however_it_is_cut(size: int) -> None:
    """A byte at a time, a few, and all at once: the same status, body and end."""
    for answer, becomes in ANSWERS.items():
        pieces = (answer[start : start + size] for start in range(0, len(answer), size))
        assert told(read(pieces)) == becomes, answer


def test_the_end_of_the_connection_is_that_of_a_body_without_length_alone() -> None:
    """One that states its length, or comes in chunks, is cut off by it."""
    ended = {answer: read([answer]).end() for answer in ANSWERS}
    assert [answer for answer, is_whole in ended.items() if not is_whole] == [
        OK + b"Content-Length: 9\r\n\r\npage",
        CHUNKED + b"4\r\npage\r\n",
    ]


def test_what_is_no_answer_says_why() -> None:
    for answer, said in NO_ANSWERS.items():
        with pytest.raises(NotHttp, match=said):
            read([answer])


def test_a_control_character_is_a_blank_in_what_is_mended() -> None:
    """A CR that ends no line cannot begin another header: a site may repeat what a stranger has sent to it."""
    reader = read([headed(b"X: a\x00b\rLocation: http://evil.example/", b"Content-Length: 4")])
    assert reader.headers[0] == (b"X", b"a b Location: http://evil.example/")
    assert len(reader.headers) == 2


@for_each(
    ("head", "after", "keeps_alive"),
    [
        (OK + b"Content-Length: 4\r\n\r\n", b"", True),
        (OK + b"Content-Length: 0\r\n\r\n", b"", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"", True),
        (OK + b"\r\n", b"", True),
        (OK + b"Connection: Close\r\n\r\n", b"", False),
        (b"HTTP/1.0 200 OK\r\n\r\n", b"", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", b"", True),
        (b"http/1.1 200 OK\r\n\r\n", b"", False),
        (OK + b"Content-Length: 4\r\n\r\n", b"page", False),
    ],
)
def test_the_answer_to_a_head_ends_with_its_head(head: bytes, after: bytes, keeps_alive: bool) -> None:
    """Whatever it says of a body; a body that a site sends all the same spoils the connection."""
    for pieces in ([head + after], [head[:9], head[9:], after]):
        reader = AnswerReader(1_000, has_body=False)
        for piece in filter(None, pieces):
            reader.feed(memoryview(piece))
        assert told(reader) == (200, b"", True, keeps_alive)


def test_headers_come_as_they_were_sent() -> None:
    """In their order, with the case of their names, and with bytes that are not ASCII; those of trailers do not."""
    reader = read([OK + b"b: 1\r\nA:  \xe9 \r\nb: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: 1\r\n\r\n"])
    assert reader.headers == [(b"b", b"1"), (b"A", b"\xe9"), (b"b", b"2"), (b"Transfer-Encoding", b"chunked")]


# Answers without an end, or of very many parts, as the pieces in which they come, and what is said.
ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "header lines": (OK, b"A: 1\r\n"),
    "one header line": (OK + b"A: ", b"x" * 2**14),
    "the name of a header": (OK, b"x" * 2**14),
    "blank lines": (b"", b"\r\n" * 1_000),
    "header lines that end with CR alone": (OK + b"X: \x00", b"\rA: 1" * 1_000),
    "a status line": (b"HTTP/1.1 200 ", b"x" * 2**14),
    "small chunks": (CHUNKED, b"1\r\nx\r\n" * 1_000),
    "extensions of chunks": (CHUNKED, b"1;" + b"a" * 2**14 + b"\r\nx\r\n"),
    "one extension": (CHUNKED + b"1;", b"a" * 2**14),
    "trailers": (CHUNKED + b"0\r\n", b"A: 1\r\n" * 1_000),
    "one trailer": (CHUNKED + b"0\r\nA: ", b"x" * 2**14),
    "a body": (OK + b"\r\n", b"x" * 2**16),
    "a body in pieces": (OK + b"\r\n", b"x"),
}
# Times as long as to append as many bytes, one by one. A body in pieces takes 20 to 40 times as long: if two processors
# share a core, one is half as fast while the other works. What reads the answer anew for each piece takes thousands.
LONGEST = 100.0


def test_an_answer_without_end_has_one() -> None:
    """Whatever it consists of, reading it takes a bounded time and a bounded number of bytes."""

    def ratio(what: str) -> float:
        fed: list[int] = []
        return times_as_long(lambda: fed.append(fed_to_its_end(what)), lambda: append(fed[-1]), LONGEST)

    assert [what for what in ENDLESS if ratio(what) >= LONGEST] == []


def fed_to_its_end(what: str) -> int:
    """Read such an answer; return how many bytes that took."""
    beginning, more = ENDLESS[what]
    reader, fed = AnswerReader(2**21), len(beginning)
    reader.feed(memoryview(beginning)) if beginning else None
    try:
        while reader.section is not Section.NOTHING:
            reader.feed(memoryview(more))
            fed += len(more)
            assert fed < 2**24, what
    except AnswerTooLarge:
        assert len(reader.body) <= 2**21, what
    else:
        assert reader.is_too_large, what
    assert len(reader.body) <= 2**21 + 2**16, what
    return fed


def append(number: int) -> None:
    """Gather so many bytes in the plainest way."""
    gathered = bytearray()
    for _ in range(number):
        gathered += b"x"


def test_interim_answers_are_counted() -> None:
    """Few bytes they are: their number has a bound of its own."""
    with pytest.raises(AnswerTooLarge, match="interim answers"):
        read([b"HTTP/1.1 103 Early Hints\r\n\r\n" * (MOST_INTERIM + 1) + PAGE])


def test_as_many_lines_as_browsers_take_are_read() -> None:
    """Sites set a hundred cookies at once."""
    reader = read([OK + b"Set-Cookie: a=1\r\n" * (MOST_LINES - 1) + b"Content-Length: 0\r\n\r\n"])
    assert (len(reader.headers), reader.section) == (MOST_LINES, Section.NOTHING)
    with pytest.raises(AnswerTooLarge, match="header lines"):
        read([OK + b"Set-Cookie: a=1\r\n" * (MOST_LINES + 1) + b"\r\n"])
    with pytest.raises(AnswerTooLarge, match="bytes together"):
        read([OK + b"A: " + b"x" * MOST_HEAD + b"\r\n\r\n"])


def test_what_an_answer_holds_is_counted_as_it_will_be_stored() -> None:
    """Whatever byte a value consists of: in UTF-8, escaped where JSON has it."""
    for byte in {*range(256)} - {*b"\r\n"}:
        reader = read([OK + b"A: x" + bytes([byte]) * 2_000 + b"x\r\nContent-Length: 4\r\n\r\npage"])
        lines = [[name.decode(), value.decode("latin-1")] for name, value in reader.headers]
        stored = json.dumps(lines, ensure_ascii=False).encode()
        assert len(stored) <= reader.held() < len(stored) + 2 * A_LINE + len(b"page"), byte


def test_an_answer_does_not_grow_when_its_head_is_read() -> None:
    """What it will hold is counted before: a fetcher that has no memory left cannot wait for it then."""
    for byte in b"x\xe9":
        head = OK + b"A: " + bytes([byte]) * 200_000
        assert read([head]).held() >= read([head + b"\r\n\r\n"]).held() - A_LINE


def test_a_large_head_is_costly() -> None:
    """From FREE_HEADS on, before it is there as a whole; a body of that size is not."""
    assert read([OK + b"A: " + b"x" * (FREE_HEADS + 1)]).is_costly()
    assert read([(OK.replace(b"200", b"103") + b"A: " + b"x" * 2_000 + b"\r\n\r\n") * 17 + PAGE]).is_costly()
    assert not read([OK + b"A: " + b"x" * (FREE_HEADS - 100)]).is_costly()
    body = b"x" * 4 * FREE_HEADS
    assert not read([OK + b"Content-Length: %d\r\n\r\n" % len(body) + body], most_body=len(body)).is_costly()


def test_what_an_answer_may_come_to_hold_is_known_as_soon_as_its_head_is() -> None:
    """No more is reserved for it than it can need."""
    before, stated, endless = (
        read([answer], most_body=50_000) for answer in (OK, OK + b"Content-Length: 900\r\n\r\npage", OK + b"\r\npage")
    )
    assert before.may_hold() == before.held() + MOST_HEAD + 50_000
    assert stated.may_hold() == stated.held() - len(b"page") + 900
    assert endless.may_hold() == endless.held() - len(b"page") + 50_000
    longer = read([OK + b"Content-Length: 90000\r\n\r\npage"], most_body=50_000)
    assert longer.may_hold() == longer.held() - len(b"page") + 50_000
