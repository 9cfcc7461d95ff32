"""Trailers: lines behind the last chunk, when it is settled where the body ends."""

from tests.cases import for_each
from weir.workers.fetches.fetcher.wire.answers import AnswerReader, Section

PAGE = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n"
TRAILERS = {
    "none": b"",
    "a checksum": b"Digest: x\r\n",
    "a length": b"Content-Length: 9\r\n",
    "its own length": b"content-length: 4\r\n",
    "chunks": b"Transfer-Encoding: chunked\r\n",
    "a control character": b"X: a\x00b\r\n",
}


@for_each("size", [1, 1_000])
@for_each("what", TRAILERS)
def test_what_trailers_say_of_the_body_counts_no_more(what: str, size: int) -> None:
    """It is whole, as curl reads it, and they are no headers."""
    reader, answer = AnswerReader(1_000), PAGE + TRAILERS[what] + b"\r\n"
    for start in range(0, len(answer), size):
        reader.feed(memoryview(answer[start : start + size]))
    assert (reader.section, bytes(reader.body), reader.keeps_alive) == (Section.NOTHING, b"page", True)
    assert reader.headers == [(b"Transfer-Encoding", b"chunked")]


def test_chunks_beside_a_length_still_end_their_connection() -> None:
    """In a head, nobody knows which of them a proxy before us has believed."""
    reader = AnswerReader(1_000)
    reader.feed(memoryview(PAGE.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n", 1) + b"\r\n"))
    assert (reader.section, bytes(reader.body), reader.keeps_alive) == (Section.NOTHING, b"page", False)
