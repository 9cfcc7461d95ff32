"""The gate between claiming and requesting for jobs whose headers name access tokens.

A job goes on with its tokens, or is turned away with the event in which it ends: it waits for a token, or the attempt
fails because the client cannot be used, or the last request for its token failed. A job that itself asks for a token
goes on with its client. For the claimer's thread: the gate waits for the database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from django.db import Error

from weir.conf.oauth_clients import OAuthClient, oauth_client
from weir.conf.secrets import SecretUnusable
from weir.conf.texts.request_headers import BEGINS, TOKEN, named_in
from weir.logs.loggers import get_logger
from weir.ratelimit.sites import SitesLocked
from weir.workers.fetches.access_tokens import sealing, tokens
from weir.workers.fetches.access_tokens.tokens import Known
from weir.workers.fetches.jobs import Event, Failure, Job, Snoozed

log = get_logger(__name__)

# Seconds after which a fetch that waits for a token is due again: as many as the token has been asked for. Each time it
# takes a slot of its site, which others could use; usually it is woken earlier (tokens.py).
WAIT: Final = 5.0
LONGEST_WAIT: Final = 30.0
MISSED_START_S: Final = 60.0  # how long after a missed start the next one is, at most (ratelimit/sql/unreserve.sql)


def admit(jobs: Sequence[Job]) -> tuple[list[Job], list[Event]]:
    """Return the jobs that may be requested, and the events of the others; both in the given order, none is dropped.

    Without a job that has to do with tokens, no query is made.
    """
    wanted = {job.fetch_id: names for job in jobs if (names := _clients_of(job))}
    if not wanted:
        return list(jobs), []
    clients = {name: _client(name) for names in wanted.values() for name in names}
    known = _known(jobs, wanted, clients)
    let_through: list[Job] = []
    turned_away: list[Event] = []
    for job in jobs:
        answer = _judged(job, wanted.get(job.fetch_id, ()), clients, known)
        (let_through if isinstance(answer, Job) else turned_away).append(answer)  # type: ignore[arg-type]
    return let_through, turned_away


def _clients_of(job: Job) -> Sequence[str]:
    """Return the names of the clients that the job needs."""
    if job.token_client:
        return (job.token_client,)
    values = (*job.site_headers.values(), *job.request_headers.values())
    if not any(BEGINS[TOKEN] in value for value in values):
        return ()  # as for nearly all jobs
    return sorted(named.name for named in named_in(job.given_headers()) if named.kind == TOKEN)


def _client(name: str) -> OAuthClient | SecretUnusable:
    try:
        client = oauth_client(name)
        sealing.require(client)
    except SecretUnusable as error:
        return error
    return client


def _known(
    jobs: Iterable[Job], wanted: dict[int, Sequence[str]], clients: dict[str, OAuthClient | SecretUnusable]
) -> dict[str, Known]:
    """Return what is known of the tokens that jobs carry, by client."""
    askers = {name: job.correlation_id for job in jobs if not job.token_client for name in wanted.get(job.fetch_id, ())}
    usable = [client for name in askers if isinstance(client := clients[name], OAuthClient)]
    try:
        return tokens.look_up(usable, askers) if usable else {}
    except (Error, SitesLocked):  # the jobs are claimed and must not be dropped: they wait
        log.exception("access_tokens_not_looked_up")
        return {}


def _judged(
    job: Job, names: Iterable[str], clients: dict[str, OAuthClient | SecretUnusable], known: dict[str, Known]
) -> Job | Event:
    """Return the job with its tokens, or the event in which it is turned away."""
    usable: dict[str, OAuthClient] = {}
    for name in names:
        if isinstance(client := clients[name], SecretUnusable):
            return Failure(job=job, error=str(client))
        usable[name] = client
    if job.token_client:
        return _asking(job, clients[job.token_client])
    carried = {}
    for name, client in usable.items():
        of_client = known.get(name, Known())
        if (token := of_client.token_for(job.site_id)) is not None and token.expires_at > job.start_at:
            carried[name] = token
        elif of_client.error and of_client.refresh_in_s > 0:
            return Failure(job=job, error=of_client.error, not_before_s=of_client.refresh_in_s)
        elif of_client.lifetime_s is not None and of_client.lifetime_s <= min(job.run.interval_s, MISSED_START_S):
            return Failure(job=job, error=_too_short(name, of_client.lifetime_s))
        else:
            wait_s = min(LONGEST_WAIT, max(WAIT, of_client.asked_s))
            key = sealing.key_of(client)
            return Snoozed(job=job, delay_s=wait_s, reason=tokens.waits_for(name), awaited_token=key)
    return replace(job, tokens=carried) if carried else job


def _too_short(name: str, lifetime_s: float) -> str:
    """Return why a token that is asked for now would not count any more at the next start of the site."""
    return (
        f"the secret {name} brings access tokens that count for {lifetime_s:.0f} s, less than the time between two "
        "starts at this site: set a faster rate, or have its server give tokens that live longer"
    )


def _asking(job: Job, client: OAuthClient | SecretUnusable) -> Job | Event:
    if not isinstance(client, OAuthClient) or sealing.key_of(client) != job.token_key:
        said = f"the secret {job.token_client} is another one at the fetcher that has asked for this token"
        return Failure(job=job, error=said)
    return replace(job, client=client)
