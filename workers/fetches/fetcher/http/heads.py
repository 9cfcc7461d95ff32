"""Heads: the bytes of a job's request, with the header fields of its site and of its fetch, and the secrets in them.

A secret is read here, when the request is made, some seconds at most before it is sent; nothing keeps it. A redirect to
another origin takes only the fields of TO_ALL along, and so do all that follow, as in https://fetch.spec.whatwg.org/:
that origin may redirect back, to a URL of its choice.
"""

from collections.abc import Iterable
from typing import Final

from weir.conf import settings
from weir.conf.secrets import SecretMissing, secret
from weir.conf.texts.request_headers import placeholders, with_secrets
from weir.workers.fetches.fetcher.results.decoding import ACCEPT_ENCODING
from weir.workers.fetches.fetcher.wire.requests import get_request
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.targets import UrlParts

SHORTEST: Final = 6  # characters of a secret that is looked for: a shorter one may stand there by chance
TO_ALL: Final = frozenset({"accept", "accept-language", "user-agent"})  # fields that say nothing about the caller


def request(job: Job, to: UrlParts, *, is_last: bool) -> bytes:
    """Return the bytes of the job's request; with `is_last`, the connection ends with its answer.

    Raises UnsendableRequest, and SecretMissing.
    """
    fields = {
        "user-agent": (b"User-Agent", settings.WEIR_FETCH_USER_AGENT.encode("latin-1", "replace")),
        "accept": (b"Accept", b"*/*"),
        "accept-encoding": (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
    }
    for name, value in (*job.site_headers.items(), *job.headers.items()):  # those of the fetch replace the site's
        if not job.left_origin or name.lower() in TO_ALL:
            fields[name.lower()] = (name.encode("ascii"), with_secrets(value, secret).encode("ascii"))
    headers = [*fields.values(), *(job.validators.headers() if job.validators else ())]
    if is_last:
        headers.append((b"Connection", b"close"))
    return get_request(to.authority, to.path_and_query, headers)


def without_secrets(job: Job, headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of the answer, which are stored, with the names of the request's secrets in their places.

    Some sites repeat the request's head, or redirect to a URL with its key.
    """
    found = {with_secrets(each, _known): each for each in placeholders({**job.site_headers, **job.headers})}
    told = [(text.encode("ascii"), each.encode("ascii")) for text, each in found.items() if len(text) >= SHORTEST]
    cleared = []
    for name, value in headers:
        for text, each in told:
            value = value.replace(text, each)  # noqa: PLW2901  one after the other
        cleared.append((name, value))
    return tuple(cleared)


def _known(name: str) -> str:
    try:
        return secret(name)
    except SecretMissing:  # it was known when the request was made
        return ""
