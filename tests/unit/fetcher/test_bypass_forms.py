"""Each published disguise of a forbidden address against what a URL passes before a connection is opened."""

import asyncio
import re
import socket
from collections import Counter
from ipaddress import ip_address
from typing import Any

import pytest

from tests.bypass_forms import ANSWERS, FORMS
from weir.workers.fetches.addresses import AddressRefused, Allowed, check_address
from weir.workers.fetches.fetcher.http.resolver import GuardedResolver
from weir.workers.fetches.targets import InvalidTarget, parse_target, parts_of


def answer_all_names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Make the system's resolver, the outermost edge, answer this to every question."""

    def getaddrinfo(_host: str, port: int, **_options: Any) -> list[tuple[Any, ...]]:
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(families[":" in a], socket.SOCK_STREAM, 6, "", (a, port)) for a in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def look_up(text: str) -> None:
    """Do with a URL what comes before its connection: parse it, check its address, or those that its name has."""
    host = parts_of(parse_target(text).url).host
    resolver = GuardedResolver(allowed=Allowed(), timeout_s=5)
    try:
        check_address(str(ip_address(host)), ())
    except ValueError:
        await resolver.resolve(host, 80)
    finally:
        resolver.close()


def refusal(text: str) -> str:
    """Return the reason of the first refusal: by the parser, the guard, or the guard in the resolver."""
    try:
        asyncio.run(look_up(text))
    except (InvalidTarget, AddressRefused) as refused:
        return str(refused)
    return pytest.fail(f"{text} passes")


def test_no_disguise_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form is refused for the reason that it should be, also where every name resolves to this host."""
    answer_all_names(monkeypatch, "127.0.0.1")
    said = {form.what: (form.refusal, refusal(form.at(8080))) for form in FORMS}
    assert {what: told for what, told in said.items() if not re.search(*told)} == {}


@pytest.mark.parametrize("answers", ANSWERS.values(), ids=ANSWERS)
def test_no_answer_of_a_name_server_passes(answers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A harmless name that resolves to forbidden addresses is refused with one of them."""
    answer_all_names(monkeypatch, *answers)
    said = refusal("http://allowed.example/")
    assert any(f"allowed.example resolves to {address} is " in said for address in answers)


def test_an_answer_by_dns64_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is all that a host without IPv4 gets for most names (RFC 6147)."""
    answer_all_names(monkeypatch, "64:ff9b::808:808")
    asyncio.run(look_up("http://allowed.example/"))


def test_the_table_has_no_form_twice() -> None:
    """What is counted are different forms, each with its own name."""
    assert max(Counter(form.url for form in FORMS).values()) == 1
    assert max(Counter(form.what for form in FORMS).values()) == 1
