"""Redirects: where an answer leads its fetch, with which method, or why it is not followed. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weir.conf.texts.request_headers import BEGINS
from weir.conf.texts.request_query import without
from weir.workers.fetches.addresses import AddressRefused, Allowed
from weir.workers.fetches.jobs import FetchOutcome, Job
from weir.workers.fetches.methods import SAFE, becomes_get
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.targets import InvalidTarget, Target, keeps_origin, parse_target

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
WANTS_A_COOKIE: Final = (
    "asked again, the site would say the same. Sites do so that want a cookie first; fetches keep none"
)


def redirected(
    outcome: FetchOutcome, job: Job, locations: Sequence[str], allowed: Allowed | None, *, wait_s: float
) -> FetchOutcome:
    """Return the outcome of a redirect, which is followed in `wait_s` seconds: only this fetch waits."""
    nowhere = replace(outcome, state=FetchState.FAILED, leads_nowhere=True)
    if len(locations) > 1:  # browsers do not follow any of them, either
        return replace(nowhere, error=f"redirected to {len(locations)} different places at once")
    location = _without_site_query(job, locations[0])
    if was_masked(location):
        said = "redirected to a URL that contains a secret of the request"
        return replace(nowhere, error=said, log_error=said)
    try:
        target = parse_target(location, allowed, base=job.url)
    except InvalidTarget as error:
        is_forbidden = isinstance(error.__cause__, AddressRefused)  # a URL that the settings forbid
        said = f"redirected to what is refused: {_without_url(error)}"
        refused = replace(nowhere, error=f"redirected to {location!r}: {error}", log_error=said)
        return replace(refused, leads_nowhere=not is_forbidden)
    has_become_get = becomes_get(outcome.status_code or 0, job.method)
    if why := _why_not(job, target, location, has_become_get=has_become_get):
        return replace(nowhere, error="".join(why), log_error=why[0])
    return replace(
        outcome,
        attempted=False,
        hop_url=target.url,
        hop_host=target.host,
        has_left_origin=not keeps_origin(job.url, target.url),
        has_become_get=has_become_get,
        delay_s=wait_s,
        error=f"its redirect asks to be followed in {wait_s:.0f} s (Retry-After)" if wait_s else "",
    )


def was_masked(value: str) -> bool:
    """Return whether a secret or a token was masked in this header of the answer (http/masking.py)."""
    return any(begin in value for begin in BEGINS.values())


def _without_site_query(job: Job, location: str) -> str:
    """Return the location without the parameters that the job's site adds, if requests there get them anew.

    Some sites repeat them. So no URL that is stored has a secret from there.
    """
    if not job.site_query or job.has_left_origin:
        return location
    shorter = without(location, job.site_query)
    try:
        return shorter if keeps_origin(job.url, parse_target(shorter, base=job.url).url) else location
    except InvalidTarget:
        return location


def locations_of(headers: tuple[tuple[bytes, bytes], ...]) -> list[str]:
    """Return the different places that the answer redirects to: none, one, or several, which cannot be followed."""
    lines = (value.strip(b" \t") for name, value in headers if name.lower() == b"location")
    return [_place(value) for value in dict.fromkeys(filter(None, lines))]


def _why_not(job: Job, target: Target, location: str, *, has_become_get: bool) -> tuple[str, str] | None:
    """Return why the redirect is not followed: as a log may hold it, and the rest, which has a URL; None if it is."""
    if not has_become_get and target.url in (job.url, _first_target(job)):
        back = "itself" if target.url == job.url else "where it began"
        return f"redirected to {back}: {WANTS_A_COOKIE}", ""
    if job.redirects >= job.max_redirects:
        return f"more than {job.max_redirects} redirects", f", the last to {location}"
    if job.method not in SAFE and not has_become_get and not keeps_origin(job.url, target.url):
        return f"redirected to another origin, to which no {job.method} is sent", f": ask for {target.url} itself"
    return None


def _first_target(job: Job) -> str:
    """Return the URL that was sent first with this method; empty if there is none, or its text is no longer a URL."""
    try:
        return parse_target(job.first_url).url if job.first_url and not job.has_become_get else ""
    except InvalidTarget:
        return ""


def _without_url(error: InvalidTarget) -> str:
    """Return the reason of a refusal as a log may hold it: what comes after a colon may quote the URL."""
    return str(error).partition(": ")[0]


def _place(raw: bytes) -> str:
    """Decode a Location. Browsers and sites read bytes beyond ASCII in it as UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
