"""TLS before a server without it, on a port that takes both: Sentinels can name the port to clients that speak TLS."""

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SELF_SIGNED = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=redis.example "
    "-addext subjectAltName=IP:127.0.0.1"
)
HANDSHAKE = b"\x16"  # the first byte of a client that speaks TLS
CHUNK = 65_536


class Fronts:
    """Ports that forward what comes in by TLS, or without, to ports without TLS. Runs in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "certificate.pem"
        command = [*SELF_SIGNED.split(), "-keyout", str(folder / "key.pem"), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        self.by_tls: set[int] = set()  # servers that were asked by TLS
        self._serving: set[asyncio.Task[None]] = set()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self.certificate, folder / "key.pem")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, server: int, *, only_tls: bool = False) -> int:
        """Listen in front of the server on this port; return the port to connect to."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        asyncio.run_coroutine_threadsafe(self._listen(listener, server, only_tls), self._loop)
        port: int = listener.getsockname()[1]
        return port

    def close(self) -> None:
        """End, with all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _listen(self, listener: socket.socket, server: int, only_tls: bool) -> None:
        with listener:
            while True:
                client, _ = await self._loop.sock_accept(listener)
                serving = self._loop.create_task(self._serve(client, server, only_tls))
                self._serving.add(serving)  # the loop keeps none alive
                serving.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket, server: int, only_tls: bool) -> None:
        client.setblocking(True)
        first = await asyncio.to_thread(client.recv, 1, socket.MSG_PEEK)
        client.setblocking(False)
        if only_tls and first != HANDSHAKE:
            client.close()
            return
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        with suppress(OSError):  # a client that does not trust the certificate
            tls = self._tls if first == HANDSHAKE else None
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, client, ssl=tls)
            if tls:
                self.by_tls.add(server)
            writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
            from_server, to_server = await asyncio.open_connection("127.0.0.1", server)
            await asyncio.gather(_hand_on(reader, to_server), _hand_on(from_server, writer))


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@contextmanager
def fronts(folder: Path) -> Iterator[Fronts]:
    started = Fronts(folder)
    try:
        yield started
    finally:
        started.close()
