"""Heads: the bytes of a job's request: the headers of its site and of its fetch, the secrets in them, and its body.

A secret is read here, when the request is made, some seconds at most before it is sent; only the attempt keeps it, to
mask it in the answer (masking.py). Once a redirect has led to another origin, only the headers of TO_ALL are sent, as
browsers do (https://fetch.spec.whatwg.org/): that origin may redirect back, to a URL of its choice. Once a redirect has
turned the method into GET, no headers of the body are sent.
"""

from typing import Final, NamedTuple

from weir.conf import settings
from weir.conf.secrets import SecretUnusable, secret
from weir.conf.texts.request_headers import secrets_of, with_secrets
from weir.workers.fetches.fetcher.results.decoding import ACCEPT_ENCODING
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest, request_head
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.methods import SAY_LENGTH
from weir.workers.fetches.targets import UrlParts

TO_ALL: Final = frozenset({"accept", "accept-language", "if-range", "range", "user-agent"})  # sent to any origin


class Request(NamedTuple):
    """A request as it is sent, its body included, and the secrets in it, by name."""

    sent: bytes
    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def request(job: Job, to: UrlParts, *, is_last: bool) -> Request:
    """Return the job's request; with `is_last`, the connection ends with its answer.

    Raises UnsendableRequest; not for ever if a secret cannot be used, which may be known later, or to another fetcher.
    """
    given = {name: value for name, value in _given(job) if _goes_along(job, name.lower())}
    try:
        secrets = {name: secret(name) for name in secrets_of(given)}
    except SecretUnusable as error:
        raise UnsendableRequest(str(error), is_permanent=False) from None
    fields = {
        "user-agent": (b"User-Agent", settings.WEIR_FETCH_USER_AGENT.encode("latin-1", "replace")),
        "accept": (b"Accept", b"*/*"),
        "accept-encoding": (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
    }
    if "range" in map(str.lower, given):
        fields["accept-encoding"] = (b"Accept-Encoding", b"identity")  # a part of an encoded body cannot be decoded
    for name, value in given.items():
        fields[name.lower()] = (name.encode("ascii"), _sendable(name, with_secrets(value, secrets.__getitem__)))
    headers = [*fields.values(), *(job.validators.headers() if job.validators else ())]
    if is_last:
        headers.append((b"Connection", b"close"))
    body = job.body.content if job.body else b""
    if body or job.method in SAY_LENGTH:
        headers.append((b"Content-Length", b"%d" % len(body)))
    return Request(request_head(job.method, to.authority, to.path_and_query, headers) + body, secrets)


def _given(job: Job) -> list[tuple[str, str]]:
    """Return the headers of the site and of the fetch, which replace the site's, whatever the case of their names."""
    key = {"Idempotency-Key": str(job.idempotency_key)} if job.idempotency_key else {}
    own = {name.lower() for name in (*job.request_headers, *key)}
    of_site = [(name, value) for name, value in job.site_headers.items() if name.lower() not in own]
    return [*of_site, *job.request_headers.items(), *key.items()]


def _goes_along(job: Job, name: str) -> bool:
    """Return whether this header is still sent, wherever redirects have led, whatever they have made of the method."""
    if job.has_become_get and (name.startswith("content-") or name == "idempotency-key"):
        return False
    return not job.has_left_origin or name in TO_ALL


def _sendable(name: str, value: str) -> bytes:
    if not value.isascii() or not value.isprintable() or value != value.strip():
        said = f"the secret in the header {name} cannot be sent: it must be printable ASCII, on one line"
        raise UnsendableRequest(said, is_permanent=False)
    return value.encode("ascii")
