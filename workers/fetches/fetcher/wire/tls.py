"""TLS: the standard library's, between the bytes of a socket and those of HTTP, which stay in our hands.

What a server sends on its own, such as tickets of a session, is read here, and is no answer.
"""

import ssl

RECORD = 2**14  # bytes of text that one record has at most


def context() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities, and speaks HTTP/1.1."""
    made = ssl.create_default_context()
    made.set_alpn_protocols(["http/1.1"])
    return made


class Tls:
    """One connection's TLS. Methods raise ssl.SSLError; after it nothing more may be read or written."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_ended = False  # the server has said so: without that, whoever is between may have cut the rest off

    def shake(self) -> bool:
        """Go on with the handshake, by what has been received; tell whether it has ended."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def to_send(self) -> bytes:
        """Return the bytes that are to be sent to the server."""
        return self._outgoing.read()

    def write(self, text: bytes) -> bytes:
        """Return what is to be sent for this text."""
        self._tls.write(text)
        return self._outgoing.read()

    def receive(self, data: memoryview) -> None:
        """Take bytes that the socket has received."""
        self._incoming.write(data)

    def read(self) -> bytes:
        """Return the next text of what was received; empty where no more has come, or the server has ended it."""
        try:
            text = self._tls.read(RECORD)
        except ssl.SSLWantReadError:
            return b""
        self.is_ended = not text
        return text
