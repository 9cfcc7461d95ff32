"""What a site may make of a secret that it got, and what is stored of that."""

import base64
import re
from urllib.parse import quote

from tests.cases import for_each
from weir.conf.texts.request_headers import Named
from weir.workers.fetches.fetcher.http.masking import masked, masked_text

SECRET = "canary/17+abc==XyZ*!'()~"  # noqa: S105  it has what encodings change
OF_SHOP = {Named("secret", "SHOP"): SECRET}


def lowered(text: str) -> str:
    """Return a text as some servers escape it in a URL: %2f."""
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quote(text, safe=""))


FORMS = {
    "as it is": SECRET,
    "escaped": quote(SECRET, safe=""),
    "escaped as by a browser": quote(SECRET, safe="!'()*~"),
    "escaped in lower case": lowered(SECRET),
    "escaped twice": quote(quote(SECRET, safe=""), safe=""),
    "in a URL in a URL": lowered("/api?key=" + lowered(SECRET)),
    "in JSON": SECRET.replace("/", "\\/"),
    "in JSON, by number": SECRET.replace("+", "\\u002B"),
    "in HTML": SECRET.replace("'", "&#39;"),
    "in Base64": base64.b64encode(SECRET.encode()).decode(),
    "in Base64 for URLs": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "in Base64, behind a name": base64.b64encode(b"weir:" + SECRET.encode()).decode(),
    "in digits": SECRET.encode().hex(),
}


@for_each("form", FORMS)
def test_no_form_of_a_secret_is_left_in_a_header(form: str) -> None:
    [(_, value)] = masked([(b"Location", b"/x?" + FORMS[form].encode())], OF_SHOP)
    assert b"{secret:SHOP" in value
    assert b"canary" not in value
    assert FORMS[form].encode() not in value


@for_each("said", ["https://a.example/x%2Fy?a=1&amp;b=2", "abcdefghijklmnop", "%", "\\", "&#0;", "\xff"])
def test_what_is_no_secret_stays_as_it_came(said: str) -> None:
    assert masked([(b"Location", said.encode("latin-1"))], OF_SHOP) == ((b"Location", said.encode("latin-1")),)


def test_no_part_of_a_secret_is_left_in_an_error() -> None:
    """An error quotes the beginning of what came."""
    text = masked_text(f"not an answer in HTTP: it begins with '{SECRET[:12]}'", OF_SHOP)
    assert text == "not an answer in HTTP: it begins with '{secret:SHOP}"
