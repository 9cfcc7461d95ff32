"""Given: what a call asks to be sent to each of its URLs, checked, as it is stored. Pure."""

import json as json_module
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlencode

from weir.conf import settings
from weir.conf.texts.request_headers import OF_ONE_FETCH, usable_headers
from weir.workers.fetches.methods import METHODS, MOST_REDIRECTS, SAFE, USUAL_REDIRECTS

Form: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
CONTENT_TYPE: Final = "Content-Type"
IDEMPOTENCY_KEY: Final = "idempotency-key"
RANGE: Final = "range"


class GivenRequest(NamedTuple):
    """The columns of the request that all fetches of a call share, and its body."""

    method: str
    request_headers: dict[str, str] | None
    max_redirects: int
    body: bytes | None  # None: no body

    @property
    def has_own_key(self) -> bool:
        """Return whether the caller has set the Idempotency-Key."""
        return self.method not in SAFE and IDEMPOTENCY_KEY in _names(self.request_headers)

    @property
    def needs_key(self) -> bool:
        """Return whether each fetch gets an Idempotency-Key."""
        return self.method not in SAFE and not self.has_own_key

    @property
    def fingerprint(self) -> str:
        """Return what tells the request from others to the same URL with the same headers; empty for the usual GET."""
        if (self.method, self.max_redirects) == ("GET", USUAL_REDIRECTS):
            return ""
        return f"{self.method} {self.max_redirects} {sha256(self.body or b'').hexdigest()}"


def given_request(
    *,
    method: str,
    body: bytes | None,
    json: Any,  # noqa: ANN401  whatever json.dumps takes
    form: Form | None,
    repeatable: bool,
    headers: Mapping[str, str] | None,
    revalidate: bool,
    max_redirects: int,
) -> GivenRequest:
    """Return the request as it is stored. Raises ValueError or TypeError with a sentence that says what to do."""
    method = _method(method, repeatable=repeatable)
    content, content_type = _content(body, json, form)
    if content is not None and method in SAFE:
        raise ValueError(f"A {method} has no body: ask with method='POST', 'PUT', 'PATCH' or 'DELETE'.")
    if content is not None and len(content) > settings.WEIR_FETCH_MAX_REQUEST_BODY:
        raise ValueError(
            f"The body has {len(content):,} bytes, more than the {settings.WEIR_FETCH_MAX_REQUEST_BODY:,} of "
            "WEIR_FETCH_MAX_REQUEST_BODY."
        )
    usable = usable_headers(headers or {}, also=OF_ONE_FETCH)
    _check_range(_names(usable), method, revalidate=revalidate)
    if content is not None and CONTENT_TYPE.lower() not in _names(usable):
        usable[CONTENT_TYPE] = content_type
    if type(max_redirects) is not int or not 0 <= max_redirects <= MOST_REDIRECTS:
        raise ValueError(f"max_redirects must be between 0 and {MOST_REDIRECTS}, not {max_redirects!r}.")
    return GivenRequest(method, usable or None, max_redirects, content)


def _method(given: str, *, repeatable: bool) -> str:
    method = given.upper() if isinstance(given, str) else given
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {given!r}.")
    if method not in SAFE and not repeatable:
        raise ValueError(
            f"A {method} may be sent more than once, with the same Idempotency-Key: pass repeatable=True if the site "
            "can bear that."
        )
    return method


def _content(body: bytes | None, json: Any, form: Form | None) -> tuple[bytes | None, str]:  # noqa: ANN401
    """Return the body's bytes, None without a body, and their Content-Type."""
    if sum(each is not None for each in (body, json, form)) > 1:
        raise ValueError("Give body, json or form: only one of them.")
    if json is not None:
        return _as_json(json), "application/json"
    if form is not None:
        return _as_form(form), "application/x-www-form-urlencoded"
    if body is not None and not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"body must be bytes, not {type(body).__name__}: encode a text, or pass json or form.")
    return None if body is None else bytes(body), "application/octet-stream"


def _as_json(given: Any) -> bytes:  # noqa: ANN401
    try:
        text = json_module.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"json cannot be written as JSON: {error}.") from error


def _as_form(given: Form) -> bytes:
    pairs = list(given.items() if isinstance(given, Mapping) else given)
    if not all(isinstance(pair, tuple | list) and [*map(type, pair)] == [str, str] for pair in pairs):
        raise TypeError("form must map names to values, or be pairs of them, and all must be texts.")
    try:
        return urlencode(pairs).encode()
    except UnicodeEncodeError as error:
        raise ValueError("form must have texts that can be written in UTF-8.") from error


def _check_range(names: set[str], method: str, *, revalidate: bool) -> None:
    if revalidate and method not in SAFE:
        raise ValueError(f"revalidate asks whether a page is still the same: a {method} cannot.")
    if names.isdisjoint(OF_ONE_FETCH):
        return
    if method != "GET":
        raise ValueError(f"headers must have Range and If-Range only for a GET, not for a {method}.")
    if revalidate:
        raise ValueError("revalidate asks for whole bodies: leave it out, or the headers Range and If-Range.")
    if RANGE not in names:
        raise ValueError("headers must have If-Range only beside Range.")


def _names(headers: Mapping[str, str] | None) -> set[str]:
    return {name.lower() for name in headers or {}}
