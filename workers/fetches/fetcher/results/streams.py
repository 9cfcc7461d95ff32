"""Streams: each decompresses one compressed stream, piece by piece, with a maintained library. Pure.

A stream is fed while it `needs_input`, and returns at most about `most` bytes in each step. After a step, `ended` says
whether it has ended; `unused` has the bytes that it was fed beyond its end. Errors that a library raises about bytes
that it cannot read are raised as Broken.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Final, Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE: Final = tuple(bytes([0x50 + number, 0x2A, 0x4D, 0x18]) for number in range(16))
EITHER: Final = 32 + zlib.MAX_WBITS  # zlib distinguishes gzip's header from its own
RAW: Final = -zlib.MAX_WBITS
ZSTD_WINDOW: Final = 23  # RFC 9659: 8 MiB is the most that a content encoding may need; brotli's own bound is 16 MiB


class Broken(ValueError):
    """The bytes are not a stream of this kind; the message says why."""


class Stream(Protocol):
    """The state of reading one stream."""

    needs_input: bool  # if not, more content comes from the bytes that the stream was fed before
    ended: bool
    unused: bytes

    def step(self, data: bytes, most: int) -> bytes:
        """Return the next content. Raises Broken."""

    def is_read(self, content: bytes) -> bool:
        """Return whether this is all content of the stream, although the stream has not ended."""


class Deflated:
    """gzip, zlib, or deflate without any header."""

    def __init__(self, window_bits: int = EITHER) -> None:
        self.needs_input, self.ended, self.unused = True, False, b""
        self._inflater = zlib.decompressobj(window_bits)
        self._left = b""
        self._trailer: Callable[[bytes], bytes] | None = None
        self._has_trailer = window_bits == EITHER

    def step(self, data: bytes, most: int) -> bytes:
        if self._has_trailer and self._trailer is None and data:  # zlib's own header cannot begin like gzip's
            self._trailer = _gzip_trailer if data[:1] == GZIP_MAGIC[:1] else _zlib_trailer
        try:
            content = self._inflater.decompress(self._left or data, most)
        except zlib.error as error:
            raise Broken(str(error)) from error
        self._left = self._inflater.unconsumed_tail
        self.ended, self.unused = self._inflater.eof, self._inflater.unused_data
        self.needs_input = not self._left and len(content) < most  # if `most` came, zlib may have more content
        return content

    def is_read(self, content: bytes) -> bool:
        """Return whether only the trailer, or its end, is missing: with these bytes, the stream would end correctly."""
        trailer = self._trailer(content) if self._trailer else b""
        return any(self._ends_with(trailer[there:]) for there in range(len(trailer)))

    def _ends_with(self, trailer: bytes) -> bool:
        attempt = self._inflater.copy()
        try:
            return not attempt.decompress(trailer, 1) and attempt.eof
        except zlib.error:
            return False


def _gzip_trailer(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little")


def _zlib_trailer(content: bytes) -> bytes:
    return zlib.adler32(content).to_bytes(4, "big")


class Brotli:
    """br. Its library keeps the bytes that it was fed, and treats bytes after the end as an error."""

    def __init__(self) -> None:
        self.needs_input, self.ended, self.unused = True, False, b""
        self._reader = brotli.Decompressor()

    def step(self, data: bytes, most: int) -> bytes:
        try:
            content = bytes(self._reader.process(data, output_buffer_limit=most))
            self.ended = self._reader.is_finished()
            self.needs_input = self._reader.can_accept_more_data()
        except brotli.error as error:
            raise Broken(str(error).removeprefix("brotli: ")) from error
        return content

    def is_read(self, content: bytes) -> bool:  # noqa: ARG002  neither has a trailer that could be missing alone
        return False


class Zstd:
    """zstd: one frame, which may be a skippable one."""

    def __init__(self) -> None:
        self.needs_input, self.ended, self.unused = True, False, b""
        self._reader = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW})

    def step(self, data: bytes, most: int) -> bytes:
        try:
            content = self._reader.decompress(data, most)
        except zstd.ZstdError as error:
            raise Broken(str(error).removeprefix("Unable to decompress Zstandard data: ")) from error
        self.ended, self.needs_input = self._reader.eof, self._reader.needs_input
        self.unused = self._reader.unused_data if self.ended else b""
        return content

    def is_read(self, content: bytes) -> bool:  # noqa: ARG002  neither has a trailer that could be missing alone
        return False


STREAMS: Final[dict[str, Callable[[], Stream]]] = {
    "gzip": Deflated,
    "x-gzip": Deflated,
    "deflate": Deflated,
    "br": Brotli,
    "zstd": Zstd,
}
# The codings in which another stream may follow the end of a stream, and the bytes with which that stream begins.
MEMBERS: Final[dict[str, tuple[bytes, ...]]] = {
    "gzip": (GZIP_MAGIC,),
    "x-gzip": (GZIP_MAGIC,),
    "zstd": (ZSTD_MAGIC, *ZSTD_SKIPPABLE),
}
