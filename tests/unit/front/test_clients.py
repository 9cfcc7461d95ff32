"""Who the client is, by what connects and by what a proxy says."""

import asyncio
from collections.abc import Sequence
from typing import Any

from project.front.clients import KnownClients
from tests.cases import for_each
from tests.unit.front.asgi import Client, Counting, ask, scope

PROXIES = ["10.0.0.0/8", "127.0.0.1"]


def client_of(peer: str, *told: bytes, proxies: Sequence[str] = PROXIES) -> str:
    seen: list[Any] = []
    application = Counting()
    application.may_end.set()

    async def noting(asked: Any, receive: Any, send: Any) -> None:
        seen.append(asked["client"])
        await application(asked, receive, send)

    async def asked() -> None:
        headers = [(b"x-forwarded-for", value) for value in told]
        await ask(KnownClients(noting, proxies), scope("/", *headers, client=peer), Client([b""]))

    asyncio.run(asked())
    return str(seen[0][0])


@for_each(
    ("peer", "told", "believed"),
    [
        ("203.0.113.1", [b"8.8.8.8"], "203.0.113.1"),
        ("10.5.5.5", [], "10.5.5.5"),
        ("10.5.5.5", [b"203.0.113.9"], "203.0.113.9"),
        ("10.5.5.5", [b"8.8.8.8, 203.0.113.9"], "203.0.113.9"),
        ("10.5.5.5", [b"8.8.8.8", b"203.0.113.9"], "203.0.113.9"),
        ("10.5.5.5", [b"203.0.113.9:1234"], "203.0.113.9"),
        ("10.5.5.5", [b"[2001:db8::9]:1234"], "2001:db8::9"),
        ("10.5.5.5", [b"garbage, 10.5.5.6"], "10.5.5.5"),
        ("10.5.5.5", [b"garbage"], "10.5.5.5"),
        ("10.5.5.5", [b"8.8.8.8, "], "10.5.5.5"),
        ("10.5.5.5", [b"203.0.113.9\xff"], "10.5.5.5"),
        ("10.5.5.5", [b"127.0.0.1, 10.5.5.6"], "10.5.5.5"),
        ("10.5.5.5", [b"::1"], "10.5.5.5"),
        ("10.5.5.5", [b"::ffff:127.0.0.1"], "10.5.5.5"),
        ("10.5.5.5", [b"0.0.0.0"], "10.5.5.5"),
        ("10.5.5.5", [b"224.0.0.1"], "10.5.5.5"),
        ("127.0.0.1", [b"127.0.0.1"], "127.0.0.1"),
        ("127.0.0.1", [b"::1"], "::1"),
        ("::ffff:10.5.5.5", [b"203.0.113.9"], "203.0.113.9"),  # as a socket for both families has it
        ("::FFFF:a05:505", [b"203.0.113.9, ::ffff:10.5.5.6"], "203.0.113.9"),
        ("::ffff:10.5.5.5", [b"::ffff:127.0.0.1"], "::ffff:10.5.5.5"),
        ("::ffff:127.0.0.1", [b"127.0.0.1"], "127.0.0.1"),
        ("::ffff:203.0.113.1", [b"8.8.8.8"], "::ffff:203.0.113.1"),
        ("::10.5.5.5", [b"8.8.8.8"], "::10.5.5.5"),
        ("10.5.5.5", [b"2001:db8::9%" + b"x" * 4_000], "10.5.5.5"),  # a zone of another host says nothing
        ("10.5.5.5", [b"[fe80::9%25eth0]:1234"], "10.5.5.5"),
    ],
)
def test_only_an_address_that_a_proxy_states_is_believed(peer: str, told: list[bytes], believed: str) -> None:
    assert client_of(peer, *told) == believed


@for_each("peer", ["10.5.5.5", "::ffff:10.5.5.5"])
@for_each("proxies", [["10.5.0.0/16"], ["::ffff:10.5.0.0/112"], ["10.5.5.5"], ["::ffff:10.5.5.5"]])
def test_a_proxy_is_the_same_however_its_address_is_written(proxies: list[str], peer: str) -> None:
    assert client_of(peer, b"203.0.113.9", proxies=proxies) == "203.0.113.9"
