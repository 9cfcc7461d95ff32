"""TLS: the standard library's, between the bytes of a socket and those of HTTP, which Weir reads and writes itself.

Messages that belong to TLS itself, such as session tickets, are read here; they are not part of an answer.
"""

import ssl
from collections.abc import Mapping
from typing import Any

RECORD = 2**14  # bytes of text that one record has at most
HEADER = 5  # bytes at the beginning of a record, the last two of which are the record's length
# Python's own list, without Diffie-Hellman in a group that the server chooses: one of 10,000 bits takes half a second.
CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"


def context(ca: str | None = None) -> ssl.SSLContext:
    """Return a context that trusts these authorities, or else the system's, and speaks HTTP/1.1.

    A certificate is valid as it is for curl, with any version of Python. Since 3.13, Python's default is strict: it
    refuses what private authorities often make, such as a certificate without an Authority Key Identifier, and some of
    public ones. An authority in `ca` is trusted even if another one has signed it.

    Raises ssl.SSLError, ValueError or TypeError if `ca`, in PEM, has no certificate.
    """
    made = ssl.create_default_context(cadata=ca)
    made.verify_flags = (made.verify_flags & ~ssl.VERIFY_X509_STRICT) | ssl.VERIFY_X509_PARTIAL_CHAIN
    made.set_ciphers(CIPHERS)
    made.options |= ssl.OP_NO_RENEGOTIATION
    made.set_alpn_protocols(["http/1.1"])
    return made


def context_without_names() -> ssl.SSLContext:
    """Return a context that does not check the host names of a certificate, because the class Tls checks them.

    OpenSSL does not let a star stand for a label with an underscore, which a host name should not have. Many host names
    have one, and browsers and curl accept them.
    """
    made = context()
    made.check_hostname = False
    return made


def check_name(certificate: Mapping[str, Any], host: str) -> None:
    """Raise SSLCertVerificationError unless the certificate names this host, or has a star for its first label."""
    _, _, above = host.partition(".")
    names = {name.lower() for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS" and name.isascii()}
    if host in names or ("." in above and f"*.{above}" in names):
        return
    error = ssl.SSLCertVerificationError(f"certificate is not valid for {host!r}")
    error.verify_message = f"Hostname mismatch, certificate is not valid for {host!r}."
    raise error


class Tls:
    """One connection's TLS. Methods raise ssl.SSLError; after such an error, nothing more may be read or written."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.is_ended = False  # the server has ended TLS: without this, an attacker may have cut off the rest
        self.records = 0  # records that have begun to come
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._host = "" if context.check_hostname else host  # the name to check here; "" if OpenSSL checks it
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._header = b""
        self._left = 0  # bytes of a record that are still to come

    @property
    def is_between_records(self) -> bool:
        """Return whether no record has come only in part: its text would seem to come later than the site sent it."""
        return not self._header and not self._left

    def shake(self) -> bool:
        """Continue the handshake with what has been received; return whether it has ended."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        if self._host:
            check_name(self._certificate(), self._host)
        return True

    def _certificate(self) -> Mapping[str, Any]:
        try:
            return self._tls.getpeercert() or {}
        except ValueError:  # it has a name that is not UTF-8
            return {}

    def to_send(self) -> bytes:
        """Return the bytes that TLS wants to send to the server."""
        return self._outgoing.read()

    def write(self, text: bytes) -> bytes:
        """Return the bytes to send for this text."""
        self._tls.write(text)
        return self._outgoing.read()

    def receive(self, data: memoryview) -> None:
        """Take bytes that the socket has received."""
        self._incoming.write(data)
        position = 0
        while position < len(data):
            if self._left:
                taken = min(self._left, len(data) - position)
                self._left -= taken
            else:
                taken = min(HEADER - len(self._header), len(data) - position)
                self._header += data[position : position + taken]
                if len(self._header) == HEADER:
                    self.records += 1
                    self._left, self._header = int.from_bytes(self._header[3:]), b""
            position += taken

    def read(self) -> bytes:
        """Return the next text that was received; empty if no more has come, or the server has ended TLS."""
        try:
            text = self._tls.read(RECORD)
        except ssl.SSLWantReadError:
            return b""
        self.is_ended = not text
        return text
