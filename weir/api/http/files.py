"""Files as answers: whole if they are short, and in pieces if they are long, so that no process holds all of one."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, BinaryIO, Final

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

PIECE: Final = 2**20  # bytes


def body_response(request: HttpRequest, file: BinaryIO, **options: Any) -> HttpResponseBase:
    """Return the answer with this file, which is closed at its end. Raises what reading its beginning raises."""
    try:
        first = _beginning(file)
    except BaseException:
        file.close()
        raise
    if len(first) < PIECE:
        file.close()
        return HttpResponse(first, **options)
    content = _awaited(first, file) if isinstance(request, ASGIRequest) else _pieces(first, file)
    return StreamingHttpResponse(content, **options)


def _beginning(file: BinaryIO) -> bytes:
    """Return a PIECE, or the whole file if it is shorter: a storage may read less than it is asked for."""
    parts, left = [], PIECE
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _pieces(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield first
        yield from iter(partial(file.read, PIECE), b"")


async def _awaited(first: bytes, file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the file, which is read in a thread."""
    with file:
        yield first
        while piece := await sync_to_async(file.read)(PIECE):
            yield piece
