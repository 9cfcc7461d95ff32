"""Sites whose records of TLS a test writes itself, one by one: a library would never send such ones."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import trustme
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.unit.wire.pairs import pair
from weir.workers.fetches.fetcher.wire.connection import HttpConnection
from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.tls import Tls, context

ALERT, HANDSHAKE, TEXT = 21, 22, 23  # kinds of records
KEY_UPDATE = b"\x18\x00\x00\x01\x00"  # a message: new keys from now on, and no answer asked
TICKET = b"\x04\x00\x00\x0e" + b"\x00\x00\x0e\x10" + b"aaaa" + b"\x00" + b"\x00\x01t" + b"\x00\x00"  # the shortest


@dataclass
class Records:
    """What a site sends by TLS 1.3, after its handshake."""

    secret: bytes
    number: int = 0

    def __post_init__(self) -> None:
        self._cipher = AESGCM(_expanded(self.secret, b"key", 32))
        self._iv = int.from_bytes(_expanded(self.secret, b"iv", 12))

    def record(self, content: bytes, kind: int = TEXT) -> bytes:
        """Return the record of this content."""
        inner = content + bytes([kind])
        head = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2)
        sealed = self._cipher.encrypt((self._iv ^ self.number).to_bytes(12), inner, head)
        self.number += 1
        return head + sealed

    def new_keys(self) -> bytes:
        """Return a record that announces new keys, and write by those from now on."""
        announced = self.record(KEY_UPDATE, HANDSHAKE)
        self.secret, self.number = _expanded(self.secret, b"traffic upd", 48), 0
        self.__post_init__()
        return announced


async def secured_pair() -> tuple[HttpConnection, socket.socket, Records]:
    """Return a connection that waits for a request by TLS 1.3, its other end, and what writes records for it."""
    connection, site = pair(opens=False)
    with _contexts() as (theirs, ours, records):
        await _shake(connection, site, theirs, Tls(ours, "127.0.0.1"))
        written = records()
    connection.open()
    return connection, site, written


def plain_pair() -> tuple[ssl.SSLObject, ssl.MemoryBIO, Records]:
    """Return what reads by TLS 1.3 and Python's ssl alone, what it reads from, and what writes records for it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with _contexts() as (theirs, ours, records):
        reader = ours.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        site = theirs.wrap_bio(outgoing, incoming, server_side=True)
        for end in (reader, site, reader, site):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        return reader, incoming, records()


@cache
def _authority() -> tuple[trustme.CA, trustme.LeafCert]:
    authority = trustme.CA()
    return authority, authority.issue_cert("127.0.0.1")


@contextmanager
def _contexts() -> Iterator[tuple[ssl.SSLContext, ssl.SSLContext, Callable[[], Records]]]:
    """Yield the context of a site, ours, and what returns, after the handshake, what writes the site's records."""
    authority, certificate = _authority()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context()
    theirs.minimum_version = ssl.TLSVersion.TLSv1_3
    theirs.num_tickets = 0
    certificate.configure_cert(theirs)
    authority.configure_trust(ours)
    with TemporaryDirectory() as folder:
        theirs.keylog_filename = str(log := Path(folder) / "keys")

        def records() -> Records:
            kinds = {line.split()[0]: line.split()[-1] for line in log.read_text().splitlines() if line[:1] != "#"}
            return Records(bytes.fromhex(kinds["SERVER_TRAFFIC_SECRET_0"]))

        yield theirs, ours, records


async def _shake(connection: HttpConnection, site: socket.socket, theirs: ssl.SSLContext, tls: Tls) -> None:
    site.setblocking(False)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = theirs.wrap_bio(incoming, outgoing, server_side=True)
    shaking = asyncio.ensure_future(connection.secure(tls, Handshakes(asyncio.get_running_loop())))
    is_done = False
    while not is_done or not shaking.done():
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
            is_done = True
        await asyncio.get_running_loop().sock_sendall(site, outgoing.read())
        await asyncio.wait([shaking], timeout=0.01)
        with suppress(BlockingIOError):
            incoming.write(site.recv(10_000))


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    named = b"tls13 " + label
    info = size.to_bytes(2) + bytes([len(named)]) + named + b"\x00"
    return HKDFExpand(algorithm=SHA384(), length=size, info=info).derive(secret)
