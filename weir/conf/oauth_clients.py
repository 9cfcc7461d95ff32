"""OAuth clients: what a secret says of a client that gets access tokens by its own credentials (RFC 6749, 4.4)."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from weir.conf import settings
from weir.conf.secrets import SECRET_PREFIX, SecretUnusable, found

BASIC: Final = "basic"  # the id and the secret in the header Authorization (RFC 6749, 2.3.1)
BODY: Final = "body"  # both in the body
NEEDED: Final = ("token_url", "client_id", "client_secret")
PARAMETERS: Final = ("scope", "audience", "resource")  # of the request; the last one by RFC 8707
KNOWN: Final = frozenset({*NEEDED, *PARAMETERS, "auth", "parameters"})
SET_BY_WEIR: Final = frozenset({"grant_type", "client_id", "client_secret"})
LONGEST: Final = 8_192  # characters of all texts together


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthClient:
    """A client, by the name of the secret that describes it."""

    name: str
    token_url: str
    client_id: str
    client_secret: str
    auth: str
    parameters: tuple[tuple[str, str], ...]  # of the request for a token, beside what Weir sets

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def canonical(self) -> bytes:
        """Return a text that is the same for the same description, and different for any other one."""
        texts = (self.name, self.token_url, self.client_id, self.client_secret, self.auth)
        return json.dumps([texts, sorted(self.parameters)]).encode()


def oauth_client(name: str) -> OAuthClient:
    """Return the client that a secret describes. Raises SecretUnusable, which quotes nothing of the secret."""
    said = found(name)
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except (ValueError, RecursionError):
            raise SecretUnusable(_sentence(name, "it must be a JSON object")) from None  # the error has the text
    if not isinstance(said, Mapping):
        raise SecretUnusable(_sentence(name, "it must be a JSON object"))
    try:
        return _client(name, said)
    except ValueError as error:
        raise SecretUnusable(_sentence(name, str(error))) from None


def described() -> list[str]:
    """Return the names of the secrets, in WEIR_SECRETS and in variables, that describe clients."""
    names = {
        *settings.WEIR_SECRETS,
        *(name[len(SECRET_PREFIX) :] for name in os.environ if name.startswith(SECRET_PREFIX)),
    }
    return sorted(name for name in names if _describes(name))


def _describes(name: str) -> bool:
    try:
        oauth_client(name)
    except SecretUnusable:
        return False
    return True


def _sentence(name: str, fault: str) -> str:
    return f"the secret {name} does not describe an OAuth client: {fault} (docs/how-to/fetch-from-an-api.md)"


def _client(name: str, said: Mapping[str, object]) -> OAuthClient:
    """Return the client. Raises ValueError with what is wrong, which quotes nothing that was said."""
    if not KNOWN.issuperset(said):
        raise ValueError(f"it may have {', '.join(sorted(KNOWN))} only")
    texts = {}
    for key in NEEDED:
        match said.get(key):
            case str(text) if text:
                texts[key] = text
            case _:
                raise ValueError(f"it needs {key}, a text")
    if texts["client_secret"] in unquote_plus(texts["token_url"]):
        raise ValueError("its token_url, which is stored and shown, has the client_secret in it")
    auth = said.get("auth", BASIC)
    if auth not in {BASIC, BODY}:
        raise ValueError(f'auth must be "{BASIC}" or "{BODY}"')
    parameters = tuple(_parameters(said))
    if sum(len(text) for text in (*texts.values(), *(text for pair in parameters for text in pair))) > LONGEST:
        raise ValueError(f"it must have at most {LONGEST:,} characters")
    return OAuthClient(name=name, auth=str(auth), parameters=parameters, **texts)


def _parameters(said: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the parameters of the request for a token; one with several values, such as resource, several times."""
    others = said.get("parameters") or {}
    if not isinstance(others, Mapping) or not all(isinstance(name, str) and name for name in others):
        raise ValueError("parameters must map names to texts")
    if SET_BY_WEIR & {*others}:
        raise ValueError(f"parameters must not have {', '.join(sorted(SET_BY_WEIR))}")
    for name, given in [*((name, said.get(name)) for name in PARAMETERS), *others.items()]:
        values = given if isinstance(given, list | tuple) else (given,)
        for value in values:
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name if name in PARAMETERS else 'each of parameters'} must be a text, or several")
            if value:
                yield name, value
