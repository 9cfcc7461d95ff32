"""What a fetch says of its bodies: that of its answer, and that of its request."""

from typing import Any, BinaryIO

from weir.workers.fetches.bodies.charsets import text_of
from weir.workers.fetches.models.bodies import FetchBody, RequestBody


class HasBodies:
    """The bodies of a Fetch."""

    pk: Any
    unchanged_from_id: int | None
    headers: Any

    @property
    def content(self) -> bytes | None:
        """Return the body; after a 304, the body of the earlier result; None without a body.

        Raises BodyGone if the body was deleted, or lost by its storage, and BodyUnreachable if its storage is away.
        """
        body = self._body()
        return None if body is None else body.content

    @property
    def text(self) -> str | None:
        """Return the body as text; None without a body. Bytes that are no text become U+FFFD; raises as `content`.

        The charset is that of a byte order mark, of the header Content-Type that came with the body, of the HTML or XML
        itself, UTF-8 if the bytes are, or the most likely one.
        """
        content = self.content
        return None if content is None else text_of(content, self._headers_of_body())

    def open_content(self) -> BinaryIO | None:
        """Return the body as a file that is open for reading, which suits large ones; raises as `content`.

        A storage may be found to be away only when the file is read, which then raises BodyUnreachable.
        """
        body = self._body()
        return None if body is None else body.open()

    def _body(self) -> FetchBody | None:
        return FetchBody.objects.filter(fetch=self.unchanged_from_id or self.pk).first()

    def _headers_of_body(self) -> object:
        """Return the headers that came with the body: those of a 304 may name no charset, or another one."""
        if self.unchanged_from_id is None:
            return self.headers
        return FetchBody.objects.filter(fetch=self.unchanged_from_id).values_list("fetch__headers", flat=True).first()

    @property
    def request_body(self) -> bytes | None:
        """Return the body of the request; None without one."""
        body = RequestBody.objects.filter(fetch=self.pk).first()
        return bytes(body.content) if body else None
