"""TLS of the fake sites: between the bytes of a connection's socket and those of HTTP.

The end of a connection is not announced (no `close_notify`).
"""

import ssl
from pathlib import Path


def context_of(certificates: Path, address: str) -> ssl.SSLContext:
    """Return a context that shows the certificate of this address, which is in `<address>.pem`, with its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{address}.pem")
    return context


class SiteTls:
    """One connection's TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_shaken = False

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Decrypt what the socket has received; return the text, and the bytes to be sent. Raises ssl.SSLError."""
        self._incoming.write(data)
        text = b""
        try:
            if not self._has_shaken:
                self._tls.do_handshake()
                self._has_shaken = True
            while piece := self._tls.read(65_536):
                text += piece
        except ssl.SSLWantReadError:
            pass
        return text, self._outgoing.read()

    def encrypted(self, text: bytes) -> bytes:
        """Return the bytes to be sent for this text."""
        self._tls.write(text)
        return self._outgoing.read()
