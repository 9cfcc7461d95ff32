"""Fields of a request's head that a site or a fetch may have, and what becomes of the secrets that they name."""

from typing import Any

import pytest

from tests.cases import for_each
from weir.conf.texts import request_headers

USABLE: list[dict[str, str]] = [
    {},
    {"Accept": "application/json", "User-Agent": "ShopBot/1.0 (+https://shop.example/bot)"},
    {"Authorization": "Bearer {secret:SHOP}", "Cookie": "consent=yes; id={secret:shop_2}"},
    {"Authorization": "Basic {secret:SHOP|base64}"},
    {"X-Api-Key": "{secret:SHOP}", "x!#$%&'*+.^_`|~-1": "a"},
    {"X": "a\tb", "Y": "{not a secret}", "Z": "x" * request_headers.LONGEST_VALUE},
]
# What is refused, with a part of what is said.
REFUSED: list[tuple[dict[Any, Any], str]] = [
    *(({name: "x"}, "belongs to the connection") for name in ("Host", "connection", "Content-Length", "TE", "Upgrade")),
    ({"Accept-Encoding": "x"}, "asks for the encodings"),
    *(({name: "x"}, "belongs to one fetch") for name in ("If-Range", "Range")),
    ({"If-None-Match": '"x"'}, "pass revalidate=True"),
    ({"Proxy-Authorization": "x"}, "for a proxy"),
    ({"Authorization": "Bearer abc"}, "must name the secret of Authorization, not contain it"),
    *(({name: "x"}, "names of letters") for name in ("", " ", "a b", "a:", "ä", "a\r\nHost", "a\0")),
    *(({"A": value}, "that of A is not one") for value in ("", " ", "a\r\nHost: b", "a\0", "ä", "x" * 4_097, "a\nb")),
    *(
        ({"A": value}, "by {secret:NAME} or {secret:NAME|base64}")
        for value in ("{secret}", "{ secret:A}", "{secret:1}")
    ),
    *(
        ({"A": value}, "by {secret:NAME} or")
        for value in ("{SECRET:A}", "{secret:A|hex}", "{secret:A|}", "{TOKEN:A}", "{token :A}")
    ),
    ({"Bearer abc": "x"}, "names of letters"),
    ({"Accept": "a", "ACCEPT": "b"}, "each header once"),
    ({f"A{number}": "x" for number in range(31)}, "at most 30, not 31"),
    ({f"a b{number}": "x" for number in range(31)}, "at most 30, not 31"),  # counted before any is read
    ({f"A{number}": "x" * 4_000 for number in range(3)}, "8,192 characters together"),
]


def test_what_a_request_may_have_is_taken_as_it_is() -> None:
    for headers in USABLE:
        assert request_headers.usable_headers(headers) == headers
    assert request_headers.usable_headers({"A": " a\t"}) == {"A": "a"}


def test_what_a_request_may_not_have_is_refused_and_no_value_is_said() -> None:
    """A value may be a secret that somebody has written there."""
    for headers, said in REFUSED:
        with pytest.raises(ValueError, match=r"^headers ") as refused:
            request_headers.usable_headers(headers)
        assert said in str(refused.value), headers
        assert "abc" not in str(refused.value)


@for_each("headers", [{1: "a"}, {"A": 1}, {"A": None}, {"A": b"abc"}, "A: abc", [("A",)], ["ab"], 7])
def test_names_and_values_are_texts(headers: Any) -> None:
    with pytest.raises(TypeError, match="both must be texts") as refused:
        request_headers.usable_headers(headers)
    assert "abc" not in str(refused.value)


def test_a_secret_is_put_in_its_place() -> None:
    """As often as it is named, as it is or in Base64; what it says names no other one."""
    known = {"A": "kim:{secret:B}", "B": "b"}
    value = "Basic {secret:A|base64} {secret:B}{secret:B} {secret:A} {x}"
    texts = {request_headers.Named("secret", name): text for name, text in known.items()}
    assert request_headers.with_texts(value, texts) == "Basic a2ltOntzZWNyZXQ6Qn0= bb kim:{secret:B} {x}"
    assert request_headers.named_in({"X": value}) == set(texts)


def test_a_token_is_another_thing_than_the_secret_of_the_same_name() -> None:
    """A secret that describes an OAuth client is not sent to the sites that get its tokens."""
    secret, token = request_headers.Named("secret", "A"), request_headers.Named("token", "A")
    assert request_headers.named_in({"X": "Bearer {token:A}", "Y": "{secret:A}"}) == {secret, token}
    assert request_headers.with_texts("{token:A} {secret:A}", {secret: "1", token: "2"}) == "2 1"
    assert request_headers.usable_headers({"Authorization": "Bearer {token:A}", "X": "{tokens}"})


def test_a_line_is_read_as_it_is_written() -> None:
    """One that is none is not quoted: it may hold a secret."""
    headers = {"Accept": "a:b", "X": "1"}
    lines = request_headers.written_headers(headers)
    assert request_headers.usable_headers(map(request_headers.parse_header, lines)) == headers
    with pytest.raises(ValueError, match="must be a header such as") as refused:
        request_headers.parse_header("Authorization Bearer abc")
    assert "abc" not in str(refused.value)
