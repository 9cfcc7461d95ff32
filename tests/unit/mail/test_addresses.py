"""Addresses as people write them, and the one form that is stored."""

import pytest
from pytest_django import Settings

from tests.cases import for_each
from weir.workers.mail.addresses import CannotBeWritten, canonical, from_address, split


@for_each(
    ("text", "name", "address"),
    [
        ("kim@customers.example", "", "kim@customers.example"),
        (" kim@customers.example ", "", "kim@customers.example"),
        ("Kim@Customers.EXAMPLE", "", "Kim@customers.example"),
        ("Kim Li <kim@Customers.example>", "Kim Li", "kim@customers.example"),
        ('"Li, Kim" <kim@customers.example>', "Li, Kim", "kim@customers.example"),
        ("Kim Lî <Kim@BÜCHER.example>", "Kim Lî", "Kim@xn--bcher-kva.example"),
        ("<kim@customers.example>", "", "kim@customers.example"),
        (f"{'x' * 200} <kim@customers.example>", "x" * 200, "kim@customers.example"),
        ("kim@[127.0.0.1]", "", "kim@[127.0.0.1]"),
    ],
)
def test_name_and_address_are_told_apart(text: str, name: str, address: str) -> None:
    """The domain in ASCII and lower case, the rest as it was written."""
    assert split(text) == (name, address)
    assert canonical(address) == address


@for_each(
    "text",
    [
        "Kim <kim>",
        "Kim <>",
        "Kim <kim@customers.example>, Jo <jo@customers.example>",
        f"{'x' * 201} <kim@customers.example>",
        "kim@\N{SNOWMAN}.example",
        f"Kim <kim@{'ü' * 60}.example>",
    ],
)
def test_what_is_not_one_address_is_refused(text: str) -> None:
    """Also where its domain cannot be written in ASCII."""
    with pytest.raises(CannotBeWritten, match="is not an e-mail address"):
        split(text)


@for_each("hidden", ["\u200b", "\xa0", "\u202e", "\u2060", "\xad", "\ue000"])
@for_each("local", ["kim{}", "{}kim", "jür{}gen"])
def test_what_nobody_sees_is_refused_before_the_at(local: str, hidden: str) -> None:
    """It looks like another address: the sentence shows what is hidden."""
    text = f"{local.format(hidden)}@customers.example"
    with pytest.raises(CannotBeWritten, match="invisible character") as refused:
        canonical(text)
    assert hidden not in str(refused.value)


@for_each("text", ["Kim\r\nBcc: <kim@customers.example>", "Kim\x0b <kim@customers.example>"])
def test_a_name_cannot_add_a_header(text: str) -> None:
    """The sentence says why it is refused."""
    with pytest.raises(CannotBeWritten, match="control character in the address"):
        split(text)


def test_bounces_go_to_the_bare_address_of_the_setting(settings: Settings) -> None:
    """Without its name, in the form that mail servers take."""
    settings.DEFAULT_FROM_EMAIL = "The Shop <Orders@BÜCHER.example>"
    assert from_address() == "Orders@xn--bcher-kva.example"
