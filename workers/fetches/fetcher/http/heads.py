"""Heads: the bytes of a job's request, with the headers of its site and of its fetch, and the secrets in them.

A secret is read here, when the request is made, some seconds at most before it is sent; only the attempt keeps it, to
mask it in the answer (masking.py). Once a redirect has led to another origin, only the headers of TO_ALL are sent, as
browsers do (https://fetch.spec.whatwg.org/): that origin may redirect back, to a URL of its choice.
"""

from typing import Final, NamedTuple

from weir.conf import settings
from weir.conf.secrets import SecretUnusable, secret
from weir.conf.texts.request_headers import secrets_of, with_secrets
from weir.workers.fetches.fetcher.results.decoding import ACCEPT_ENCODING
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest, get_request
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.targets import UrlParts

TO_ALL: Final = frozenset({"accept", "accept-language", "user-agent"})  # headers that are sent to any origin


class Request(NamedTuple):
    """A request as it is sent, and the secrets in it, by name."""

    head: bytes
    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def request(job: Job, to: UrlParts, *, is_last: bool) -> Request:
    """Return the job's request; with `is_last`, the connection ends with its answer.

    Raises UnsendableRequest; not for ever if a secret cannot be used, which may be known later, or to another fetcher.
    """
    given = {name: value for name, value in _given(job) if not job.has_left_origin or name.lower() in TO_ALL}
    try:
        secrets = {name: secret(name) for name in secrets_of(given)}
    except SecretUnusable as error:
        raise UnsendableRequest(str(error), is_permanent=False) from None
    fields = {
        "user-agent": (b"User-Agent", settings.WEIR_FETCH_USER_AGENT.encode("latin-1", "replace")),
        "accept": (b"Accept", b"*/*"),
        "accept-encoding": (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
    }
    for name, value in given.items():
        fields[name.lower()] = (name.encode("ascii"), _sendable(name, with_secrets(value, secrets.__getitem__)))
    headers = [*fields.values(), *(job.validators.headers() if job.validators else ())]
    if is_last:
        headers.append((b"Connection", b"close"))
    return Request(get_request(to.authority, to.path_and_query, headers), secrets)


def _given(job: Job) -> list[tuple[str, str]]:
    """Return the headers of the site and of the fetch, which replace the site's, whatever the case of their names."""
    own = {name.lower() for name in job.request_headers}
    of_site = [(name, value) for name, value in job.site_headers.items() if name.lower() not in own]
    return [*of_site, *job.request_headers.items()]


def _sendable(name: str, value: str) -> bytes:
    if not value.isascii() or not value.isprintable() or value != value.strip():
        said = f"the secret in the header {name} cannot be sent: it must be printable ASCII, on one line"
        raise UnsendableRequest(said, is_permanent=False)
    return value.encode("ascii")
