"""Access tokens: each is asked for once for all processes, known to all of them, and renewed before it expires.

1. A fetcher that has claimed fetches looks up the tokens that their headers name (`look_up`). One that is not known,
   or is due to be renewed, is asked for by a fetch of Weir's own, before all others at the site of its server (`ask`).
2. Before the end of this fetch is stored, what it brought is stored (`note`): whoever finds no request in flight finds
   the token.
3. The fetches that wait for it are made due (`wake`), by the process that has stored the token, and by the process that
   has stored that fetches wait: the later of the two finds them.
4. A token that a site refuses with 401 counts no longer at that site (`refuse`), if it is not new: the next look-up
   asks for another one. Other sites may take it, and go on with it until then.

The database's clock counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from weir.conf.oauth_clients import OAuthClient
from weir.conf.secrets import SecretUnusable
from weir.postgres.statements import Statement
from weir.ratelimit import clock
from weir.ratelimit.sites import sites_of
from weir.workers.fetches import backlog
from weir.workers.fetches.access_tokens import sealing
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.held_tokens import HeldToken, RefusedToken, TokenReading
from weir.workers.fetches.models import HIGHEST_PRIORITY
from weir.workers.fetches.targets import InvalidTarget, Target, parse_target

MAX_ATTEMPTS: Final = 3
SITES_PATIENCE_S: Final = 0.5
# Seconds between two requests for one client, if the first brought no token, or one that is refused.
ASKED_EVERY_S: Final = 60.0
RENEWED_FROM: Final = 0.1  # of the lifetime is left when a token is renewed,
RENEWED_AHEAD_S: Final = 30.0  # and at least so many seconds, but never more than half of the lifetime
WAITS: Final = "waits for an access token of"
MOST_REFUSING: Final = 100  # sites; a token that more refuse counts nowhere
SPARE_S: Final = 10.0  # seconds before its end, or RENEWED_FROM of its lifetime, in which no request has a token


class KnownToken(NamedTuple):
    """What PostgreSQL knows of a token."""

    key: UUID
    version: int | None
    sealed: bytes | None
    error: str
    age_s: float | None
    expires_in_s: float | None
    refresh_in_s: float
    asked_s: float | None  # since when a request for it has been on its way; None: there is none
    refused_by: list[int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is known of a client's token."""

    token: HeldToken | None = None
    error: str = ""  # why the last request brought none
    refresh_in_s: float = 0.0  # seconds until it is asked for again
    asked_s: float = 0.0  # for how long a request for it has been on its way
    lifetime_s: float | None = None  # for how long the last one counted
    refused_by: frozenset[int] = frozenset()  # the sites that have refused it

    def token_for(self, site_id: int) -> HeldToken | None:
        """Return the token, unless this site has refused it."""
        return None if site_id in self.refused_by else self.token


ASK_TOKENS = Statement("ask_tokens", returns=int, commits=True)
KNOWN_TOKENS = Statement("known_tokens", row=KnownToken, commits=True)
NOTE_TOKENS = Statement("note_tokens", commits=True)
WAKE_WAITING_FOR_TOKENS = Statement("wake_waiting_for_tokens", returns=int, commits=True)
REFUSE_TOKENS = Statement("refuse_tokens", commits=True)


def look_up(clients: Iterable[OAuthClient], correlation_ids: Mapping[str, str]) -> dict[str, Known]:
    """Return what is known of the tokens of these clients, by their names, and ask for those that are due.

    Takes one query; asking takes two more, and a message. `correlation_ids` has, by client, the id with which a token
    is asked for.
    """
    by_key = {sealing.key_of(client): client for client in clients}
    now = clock.now()
    rows = {row.key: row for row in KNOWN_TOKENS(keys=list(by_key))}
    known = {client.name: _known(client, rows.get(key), now) for key, client in by_key.items()}
    due = {key: client for key, client in by_key.items() if known[client.name].refresh_in_s <= 0}
    return {**known, **ask(due, correlation_ids)} if due else known


def _known(client: OAuthClient, row: KnownToken | None, now: float) -> Known:
    if row is None:
        return Known()
    token, lifetime_s = None, None
    if row.age_s is not None and row.expires_in_s is not None:
        lifetime_s = row.age_s + row.expires_in_s
    if row.sealed and row.version and row.age_s is not None and row.expires_in_s is not None and row.expires_in_s > 0:
        text = sealing.unseal(client, bytes(row.sealed))
        token = text and HeldToken(
            text=text,
            key=row.key,
            version=row.version,
            obtained_at=now - row.age_s,
            expires_at=now + row.expires_in_s,
        )
    return Known(
        token=token or None,
        error=row.error,
        refresh_in_s=row.refresh_in_s,
        asked_s=row.asked_s or 0.0,
        lifetime_s=lifetime_s,
        refused_by=frozenset(row.refused_by or ()),
    )


def ask(due: Mapping[UUID, OAuthClient], correlation_ids: Mapping[str, str]) -> dict[str, Known]:
    """Queue the requests for these tokens, unless they are queued or in flight, or a token has come by now.

    Returns what is known instead of the clients whose token cannot be asked for.
    """
    refused: dict[str, Known] = {}
    targets: dict[UUID, Target] = {}
    for key, client in due.items():
        try:
            targets[key] = target_of(client)
        except SecretUnusable as error:
            refused[client.name] = Known(error=str(error), refresh_in_s=ASKED_EVERY_S)
    if targets:
        sites = sites_of({target.host for target in targets.values()}, patience_s=SITES_PATIENCE_S)
        asked = ASK_TOKENS(
            keys=list(targets),
            clients=[due[key].name for key in targets],
            urls=[target.url for target in targets.values()],
            sites=[sites[target.host] for target in targets.values()],
            correlation_ids=[correlation_ids.get(due[key].name, "") for key in targets],
            priority=HIGHEST_PRIORITY,
            max_attempts=MAX_ATTEMPTS,
        )
        backlog.activate(asked)
    return refused


def target_of(client: OAuthClient) -> Target:
    """Return where the client's token is asked for. Raises SecretUnusable."""
    try:
        return parse_target(client.token_url, allowed_by_settings())
    except InvalidTarget:
        said = f"the secret {client.name} does not describe an OAuth client: no request may go to its token_url"
        raise SecretUnusable(said) from None


def note(readings: Sequence[TokenReading]) -> None:
    """Store what requests for tokens brought. An older token never replaces a newer one."""
    if not readings:
        return
    now = clock.now()
    NOTE_TOKENS(
        keys=[reading.key for reading in readings],
        clients=[reading.client for reading in readings],
        sealed=[reading.sealed for reading in readings],
        age_s=[now - reading.requested_at if reading.requested_at is not None else 0.0 for reading in readings],
        usable_s=[None if reading.lifetime_s is None else usable_s(reading.lifetime_s) for reading in readings],
        refresh_s=[
            max(ASKED_EVERY_S, reading.retry_after_s) if reading.lifetime_s is None else fresh_s(reading.lifetime_s)
            for reading in readings
        ],
        errors=[reading.error for reading in readings],
    )


def waits_for(client: str) -> str:
    """Return the text that fetches have as their error while they wait for a token of this client."""
    return f"{WAITS} {client}"


def wake(awaited: Mapping[UUID, str]) -> None:
    """Make the fetches due, in their old places, that wait for these tokens, if the tokens, or errors, are known now.

    `awaited` has the text with which the fetches wait, by the key of the token. Fetches at sites that have refused the
    token go on waiting.
    """
    if awaited:
        backlog.activate(WAKE_WAITING_FOR_TOKENS(keys=list(awaited), errors=list(awaited.values())))


def usable_s(lifetime_s: float) -> float:
    """Return for how many seconds of its lifetime requests begin with a token."""
    return lifetime_s - min(SPARE_S, RENEWED_FROM * lifetime_s)


def fresh_s(lifetime_s: float) -> float:
    """Return after how many seconds of its lifetime a token is renewed."""
    return lifetime_s - min(max(RENEWED_AHEAD_S, RENEWED_FROM * lifetime_s), lifetime_s / 2)


def refuse(refused: Iterable[RefusedToken]) -> None:
    """Let these tokens count no longer at the sites that refused them, if no newer ones have come."""
    if rows := sorted(set(refused)):
        REFUSE_TOKENS(
            keys=[row.key for row in rows],
            versions=[row.version for row in rows],
            sites=[row.site_id for row in rows],
            most=MOST_REFUSING,
        )
