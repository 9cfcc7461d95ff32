"""Who sends a request, and whether the request is allowed: a bearer token, its rate and its scopes. No cookies.

1. The token is looked up by the hash of its secret. It must not have expired, by the database's clock, and must not be
   revoked.
2. The request is admitted at the rate of the token's site, which is shared by all web processes.
3. The token must have the scope that the operation requires.

In standalone Weir, `project.front` has read the body before these steps, if the request has an Authorization header.
No code has parsed the body yet.
"""

import math
import time
from datetime import timedelta
from typing import Final, NamedTuple

from django.db.models.functions import Now
from django.http import HttpRequest
from ninja.security import HttpBearer

from weir.api.http.problems import NOT_PERMITTED, TOO_MANY_REQUESTS, UNAUTHENTICATED, Problem
from weir.api.tokens import secret as secrets
from weir.api.tokens.models import Token
from weir.postgres.statements import Statement
from weir.ratelimit.admission import admit
from weir.ratelimit.slots import SlotTooFar
from weir.workers.audit.acting import Actor
from weir.workers.audit.models import Door

CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="Weir"'}
NEEDED: Final = "Send a token that is valid: Authorization: Bearer weir_..."
OF_PROGRAMS: Final = "api:"  # how the names of their batches begin, and the keys of their watches
MOST_WAIT_S: Final = 0.25  # how long a request waits, at most, if the token's other requests have used up its rate
LONGEST_RETRY_S: Final = 3_600
NOTED_EVERY: Final = timedelta(minutes=1)


class KnownToken(NamedTuple):
    """A row of KNOWN_TOKEN."""

    id: int
    name: str
    program: str
    scopes: list[str]
    was_noted: bool


KNOWN_TOKEN = Statement("known_token", row=KnownToken, commits=False, prepare=True)


class Bearer(HttpBearer):
    """Requires a token that has the scope."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> Token:  # noqa: ARG002  ninja's signature
        """Return the token whose secret was sent. Raises Problem."""
        found = _known(token)
        _admit(found)
        if self.scope not in found.scopes:
            raise Problem(NOT_PERMITTED, f"The token lacks the scope {self.scope}.")
        return found


def actor(request: HttpRequest) -> Actor:
    """Return the token's program as the actor of a change, for the audit trail."""
    token = token_of(request)
    return Actor(name=token.name, door=Door.API, may=frozenset(token.scopes).__contains__)


def own_name(request: HttpRequest, name: str) -> str:
    """Return the name of a program's batch, or the key of its watch, as Weir stores it: no other program has the same.

    A token that replaces another one has the names of that one.
    """
    return f"{OF_PROGRAMS}{token_of(request).of_program} {name}"


def token_of(request: HttpRequest) -> Token:
    """Return the token of a request that was admitted."""
    token: Token = request.auth  # type: ignore[attr-defined]  # ninja sets it
    return token


def _known(secret: str) -> Token:
    if not secrets.is_secret(secret):
        raise Problem(UNAUTHENTICATED, NEEDED, CHALLENGE)
    found = KNOWN_TOKEN(secret_hash=secrets.hash_of(secret), noted_every=NOTED_EVERY)
    if not found:
        raise Problem(UNAUTHENTICATED, NEEDED, CHALLENGE)
    [known] = found
    token = Token(id=known.id, name=known.name, program=known.program, scopes=known.scopes)
    if not known.was_noted:
        Token.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


def _admit(token: Token) -> None:
    try:
        time.sleep(admit(token.site, MOST_WAIT_S))
    except SlotTooFar as error:
        wait_s = LONGEST_RETRY_S if error.retry_after == math.inf else min(LONGEST_RETRY_S, error.retry_after)
        headers = {"Retry-After": str(max(1, math.ceil(wait_s)))}
        raise Problem(TOO_MANY_REQUESTS, f"The next request is taken in {wait_s:.3f} s.", headers) from error
