"""Decoding: content encodings, undone within a bound. Pure."""

import zlib

ACCEPT_ENCODING = "gzip, deflate"
GZIP_MAGIC = b"\x1f\x8b"
PIECE = 4_096
MOST_ENCODINGS = 2
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class BodyRefused(ValueError):
    """The body cannot be stored; the message says why."""


class BodyBroken(BodyRefused):
    """The body is in an encoding that can be undone, but it ends too early, or something else is in its place."""


def decoded(body: bytes, encoding: str, max_body: int, *, cut: bool = False) -> bytes:
    """Return the body without its content encoding; raises BodyRefused where that fails or exceeds `max_body` bytes.

    With `cut`, a body that is longer, or that was cut off after `max_body` bytes, is no error: its first `max_body` + 1
    bytes are returned, so that the caller sees that there were more.
    """
    is_whole = not cut or len(body) <= max_body
    most = max_body + PIECE if cut else max_body  # of a layer that is cut off, the next one needs more than `max_body`
    names = [part.strip().lower() for part in encoding.split(",") if part.strip()]
    if len(names) > MOST_ENCODINGS:
        raise BodyRefused(f"the body is encoded {len(names)} times over")
    for name in reversed(names):
        if name == "identity":
            continue
        if name not in _WINDOW_BITS:
            raise BodyRefused(f"the body's encoding {name!r} was not asked for")
        body = _inflated(body, _WINDOW_BITS[name], most, is_whole=is_whole)
    if len(body) > max_body and not cut:
        raise BodyRefused(f"the body is larger than {max_body} bytes (WEIR_FETCH_MAX_BODY)")
    return body[: max_body + 1]


def _inflated(body: bytes, window_bits: int, max_body: int, *, is_whole: bool) -> bytes:
    """Inflate at most one byte more than `max_body`; a gzip body may have several members."""
    parts: list[bytes] = []
    room, position, inflater = max_body + 1, 0, zlib.decompressobj(window_bits)
    try:
        while room > 0 and position < len(body):
            # In small pieces, as zlib copies what is left of a piece after the end of a member.
            piece = body[position : position + PIECE]
            parts.append(inflater.decompress(piece, room))
            room -= len(parts[-1])
            position += len(piece) - len(inflater.unused_data) - len(inflater.unconsumed_tail)
            if inflater.eof:
                if not body.startswith(GZIP_MAGIC, position):  # the end, or padding after it
                    break
                inflater = zlib.decompressobj(window_bits)
    except zlib.error as error:
        if window_bits == zlib.MAX_WBITS and not parts:  # many servers that say deflate leave zlib's header out
            return _inflated(body, -zlib.MAX_WBITS, max_body, is_whole=is_whole)
        raise BodyBroken(f"the compressed body is broken: {error}") from error
    if is_whole and body and room > 0 and not inflater.eof:
        raise BodyBroken("the compressed body ends too early")
    return b"".join(parts)
