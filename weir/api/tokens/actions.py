"""What operators do with tokens. Each action writes an entry to the audit trail.

The actions raise acting.ActRefused if the operator may not carry them out.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from weir.api.tokens import scopes as known
from weir.api.tokens import secret as secrets
from weir.api.tokens.models import LONGEST_NAME, Token
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings
from weir.ratelimit.models import MOST_SLOTS
from weir.workers.audit.acting import Actor, AuditedAction, NotPermitted, State
from weir.workers.cursors import is_text

CREATE: Final = AuditedAction("tokens.create", "weir_tokens.add_token")
REVOKE: Final = AuditedAction("tokens.revoke", "weir_tokens.change_token")
DEFAULT_RATE: Final = "20/s"
DEFAULT_BURST: Final = 100
DEFAULT_LIFE: Final = timedelta(days=90)
LONGEST_LIFE: Final = timedelta(days=366)


class UnknownToken(LookupError):
    """There is no token of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no token {name!r}: `manage.py tokens list` lists them.")


class Created(NamedTuple):
    """A new token, and its secret, which cannot be read later."""

    token: Token
    secret: str


def create(
    actor: Actor,
    name: str,
    scopes: Iterable[str],
    *,
    life: timedelta = DEFAULT_LIFE,
    rate: str = DEFAULT_RATE,
    burst: int = DEFAULT_BURST,
    replaces: str | None = None,
    why: str = "",
) -> Created:
    """Create a token that expires after `life`, and the site that gives its requests their rate.

    The actor must have every permission that the token gets. With the name of another token that it `replaces`, which
    stays valid, its program goes on with the watches and batches of that one. Commits by itself. Raises ValueError for
    a name that is or was taken, an unknown scope, a life of more than 366 days, and a text that is not a rate;
    UnknownToken.
    """
    CREATE.allow(actor, why)
    wanted = known.checked(scopes)
    if lacking := [scope for scope in wanted if not actor.may(scope)]:
        raise NotPermitted(f"{actor.name} lacks {', '.join(lacking)}: a token cannot have more than its creator.")
    check_name(name)
    if not timedelta(0) < life <= LONGEST_LIFE:
        raise ValueError(f"A token lives for {LONGEST_LIFE.days} days at most.")
    parse_rate(rate)
    if not 0 < burst <= MOST_SLOTS:
        raise ValueError(f"A burst is from 1 to {MOST_SLOTS:,} requests.")
    secret = secrets.new()
    token = Token(
        name=name.strip(),
        program="" if replaces is None else _token(replaces).of_program,
        secret_hash=secrets.hash_of(secret),
        scopes=wanted,
        expires_at=Now() + life,
    )
    try:
        with transaction.atomic(durable=True):
            token.save()
            token.refresh_from_db()
            CREATE.record(actor, token.name, why, before=None, after=_shown(token))
    except IntegrityError as error:
        raise ValueError(f"There is a token {token.name!r} already, or was: names are not given again.") from error
    site_settings.set_rate(token.site, rate, burst=burst)  # if this fails, the secret is never shown
    return Created(token, secret)


def revoke(actor: Actor, name: str, *, why: str = "") -> bool:
    """Revoke a token, whose next request is refused; returns False if it was revoked before. Raises UnknownToken."""
    REVOKE.allow(actor, why)
    with transaction.atomic():
        token = _token(name, Token.objects.select_for_update())
        if token.revoked_at is not None:
            return False
        before = _shown(token)
        token.revoked_at = Now()
        token.save(update_fields=["revoked_at"])
        token.refresh_from_db()
        REVOKE.record(actor, token.name, why, before=before, after=_shown(token))
    return True


def check_name(name: str) -> None:
    """Raise ValueError for a text that cannot be the name of a token."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not is_text(name) or not name.isprintable():
        raise ValueError(f"A token needs a name of 1 to {LONGEST_NAME} characters that can be printed.")


def _token(name: str, among: QuerySet[Token] | None = None) -> Token:
    found = (Token.objects.all() if among is None else among).filter(name=name).first()
    if found is None:
        raise UnknownToken(name)
    return found


def _shown(token: Token) -> State:
    return {
        "program": token.of_program,
        "scopes": token.scopes,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }
