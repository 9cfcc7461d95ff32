"""Answers: what a request for an access token brought (RFC 6749, 5), and how long the token counts. Pure.

What the server says is text from the internet: it is bounded, and its words are quoted only where they are an error
code (RFC 6749, 5.2). The token itself leaves this module sealed.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Final

from weir.conf.oauth_clients import OAuthClient
from weir.workers.fetches.access_tokens import sealing
from weir.workers.fetches.held_tokens import TokenReading

LONGEST_TOKEN: Final = 8_192  # characters: most servers accept heads of 16 KiB
UNSAID_S: Final = 3_600.0  # the lifetime of a token whose server does not say it; a 401 ends it earlier
LONGEST_S: Final = 30 * 86_400.0  # a longer lifetime counts as this
SUCCESS: Final = range(200, 300)
CODES: Final = frozenset(  # RFC 6749, 4.1.2.1 and 5.2; RFC 8707
    {
        "access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "invalid_target",
        "server_error", "temporarily_unavailable", "unauthorized_client", "unsupported_grant_type",
    }
)  # fmt: skip
_TOKEN: Final = re.compile(r"[!-~]+")


class NoToken(ValueError):
    """The answer has no token that can be used; the message says why, and quotes nothing but an error code."""


def read(client: OAuthClient, status: int, content: bytes) -> TokenReading:
    """Return what the answer means."""
    key = sealing.key_of(client)
    try:
        token, lifetime_s = _token(status, content)
    except NoToken as error:
        return TokenReading(key=key, client=client.name, error=why_none(client.name, str(error)))
    return TokenReading(key=key, client=client.name, sealed=sealing.seal(client, token), lifetime_s=lifetime_s)


def why_none(client: str, error: str) -> str:
    """Return why the fetches that need a token of this client fail."""
    return (
        error if error.startswith(f"the secret {client} ") else f"the secret {client} brings no access token: {error}"
    )


def _token(status: int, content: bytes) -> tuple[str, float]:
    said = _object(content)
    if status not in SUCCESS or "error" in said:
        raise NoToken(f"the server answered {status}{_code(said)}")
    token, kind = said.get("access_token"), said.get("token_type", "Bearer")
    if not isinstance(token, str) or not token:
        raise NoToken(f"the server answered {status}, without an access_token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NoToken("the server gave a token of another type than Bearer")
    if len(token) > LONGEST_TOKEN or not _TOKEN.fullmatch(token):
        raise NoToken(f"the server gave a token that is not of 1 to {LONGEST_TOKEN:,} printable ASCII characters")
    return token, _lifetime_s(said.get("expires_in"))


def _object(content: bytes) -> Mapping[str, object]:
    """Return the JSON object that the server said; an empty one if it said anything else."""
    try:
        said = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _code(said: Mapping[str, object]) -> str:
    """Return the error code if it is a registered one: some servers say what they got instead."""
    code = said.get("error")
    return f": {code}" if isinstance(code, str) and code in CODES else ""


def _lifetime_s(said: object) -> float:
    """Return for how many seconds the token counts. Some servers say a number as a text."""
    if said is None or said == "":
        return UNSAID_S
    try:
        lifetime_s = float(said) if isinstance(said, int | float | str) and not isinstance(said, bool) else math.nan
    except (ValueError, OverflowError):
        lifetime_s = math.nan
    if not lifetime_s > 0:
        raise NoToken("the server gave a token with an expires_in that is no number of seconds")
    return min(lifetime_s, LONGEST_S)
