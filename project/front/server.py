"""For uvicorn: `--http project.front.server:Protocol`. A head has MOST_S, and MOST_WAITING connections may wait.

uvicorn itself waits for a head forever, and h11 reads 16 KiB of it. An answer that a client does not read keeps its
connection open as well, even if uvicorn has closed it: the close waits until the client has read everything. If more
than MOST_WAITING connections have no request, this class aborts the one that has waited for longest.
"""

import asyncio
from typing import Any, ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from project.front.heads import CLOSE
from weir.workers.fetches.fetcher.http import descriptors

MOST_S: Final = 10.0
MOST_WAITING: Final = 500

descriptors.raise_limit()


class Protocol(H11Protocol):
    """A connection, with a deadline while no request of it is answered."""

    _waiting: ClassVar[dict["Protocol", asyncio.TimerHandle]] = {}  # the longest wait first
    _unread: asyncio.TimerHandle | None = None  # aborts the connection if the client reads nothing

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  uvicorn's type
        super().connection_made(transport)
        self.app_state = {**self.app_state, CLOSE: transport.abort}
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._no_more()
        self._is_read()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(MOST_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to another protocol, which has its own limits."""
        self._no_more()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Send a 400 if that is still possible. If an answer has begun, or is complete, only close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request is answered as if it had not asked for an upgrade (RFC 9110, 7.8)."""

    def _look(self) -> None:
        """Begin or end the wait for a head. Bytes that arrive during the wait do not prolong it."""
        if self.transport.get_protocol() is not self:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._no_more()
        elif self not in self._waiting:
            self._waiting[self] = self.loop.call_later(MOST_S, self._cut_off)
            if len(self._waiting) > MOST_WAITING:
                next(iter(self._waiting))._cut_off()  # noqa: SLF001  of its own kind

    def _cut_off(self) -> None:
        self._no_more()
        self.transport.abort()

    def _no_more(self) -> None:
        if (deadline := self._waiting.pop(self, None)) is not None:
            deadline.cancel()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
