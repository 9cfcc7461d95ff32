"""What a proxy says to a request for a tunnel is read within bounds, and nothing of it is taken for the site's."""

import asyncio
import contextlib

from tests.cases import for_each
from tests.unit.wire.pairs import pair
from weir.workers.fetches.fetcher.wire.channel import MOST_OF_TUNNEL, TunnelRefused
from weir.workers.fetches.fetcher.wire.requests import tunnel_head

NONE = "the proxy opens no tunnel"
SAID = {
    b"HTTP/1.1 200 OK\r\n\r\n": "",
    b"HTTP/1.0 200 \r\nVia: x\r\n\r\n": "",
    b"HTTP/1.1 204\r\n\r\n": "",
    b"HTTP/1.1 407 Who is it?\r\n\r\n": f"{NONE}: it answers 407",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Soon\r\nLink: /a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n": "",
    b"HTTP/1.1 102 \r\n\r\nHTTP/1.1 407 Who is it?\r\n\r\n": f"{NONE}: it answers 407",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\n\r\n": f"{NONE}: it answers 101",
    b"HTTP/1.1 100 Continue\r\n\r\n": f"{NONE}: it ends the connection",
    b"HTTP/1.1 100 Continue\r\n\r\n" * MOST_OF_TUNNEL: f"{NONE}: it says too much",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\x16": f"{NONE}: it speaks before the site is asked",
    b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n": f"{NONE}: it answers 302",
    b"SSH-2.0-x\r\n\r\n": f"{NONE}: it does not answer in HTTP",
    b"HTTP/1.1 2000 OK\r\n\r\n": f"{NONE}: it does not answer in HTTP",
    b"HTTP/1.1 200 OK\r\n\r\n\x16": f"{NONE}: it speaks before the site is asked",
    b"HTTP/1.1 200 OK\r\n": f"{NONE}: it ends the connection",
    b"": f"{NONE}: it ends the connection",
    b"HTTP/1.1 200 OK\r\nX: " + bytes(2 * MOST_OF_TUNNEL): f"{NONE}: it says too much",
}


async def _asked(said: bytes) -> tuple[bytes, str]:
    """Return what the proxy was asked, and the error; the proxy closes the connection after what it says."""
    connection, proxy = pair(opens=False)
    with proxy:
        proxy.setblocking(True)
        proxy.sendall(said)
        asked = tunnel_head("site.example", 443, [(b"Proxy-Authorization", b"Basic eA==")])
        tunnel = asyncio.ensure_future(connection.tunnel(asked))
        await asyncio.sleep(0)
        got = proxy.recv(1000)
        proxy.shutdown(1)
        error = ""
        try:
            await asyncio.wait_for(tunnel, 5)
        except TunnelRefused as refused:
            error = str(refused)
        with contextlib.suppress(Exception):
            connection.close()
        return got, error


@for_each("said", SAID)
def test_an_answer_of_a_proxy_is_a_tunnel_or_none(said: bytes) -> None:
    asked, error = asyncio.run(_asked(said))
    assert asked == (
        b"CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\nProxy-Authorization: Basic eA==\r\n\r\n"
    )
    assert error == SAID[said]


async def _said_bit_by_bit(one: bytes) -> str:
    """Return the error after a proxy that never comes to its point."""
    connection, proxy = pair(opens=False)
    said = 0
    with proxy, contextlib.closing(connection):
        proxy.setblocking(False)
        tunnel = asyncio.ensure_future(connection.tunnel(b"CONNECT"))
        while not tunnel.done() and said < 50 * MOST_OF_TUNNEL:
            with contextlib.suppress(BlockingIOError):
                said += proxy.send(one)
            for _ in range(5):  # turns of the loop, in which this is read
                await asyncio.sleep(0)
        tunnel.cancel()  # unless it has ended
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await tunnel
        except TunnelRefused as refused:
            return str(refused)
    return ""


def test_interim_answers_are_bounded_together() -> None:
    assert asyncio.run(_said_bit_by_bit(b"HTTP/1.1 100 Continue\r\n\r\n")) == f"{NONE}: it says too much"


def test_the_address_of_a_site_has_brackets() -> None:
    assert tunnel_head("2001:db8::1", 443, []) == (
        b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n"
    )
