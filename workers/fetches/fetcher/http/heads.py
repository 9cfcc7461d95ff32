"""Heads: the bytes of a job's request: the headers of its site and of its fetch, the secrets in them, and its body.

A secret is read here, when the request is made, some seconds at most before it is sent; only the attempt keeps it, to
mask it in the answer (masking.py). Access tokens come with the job (access_tokens/gate.py). A request for an access
token is made of what a secret says (token_requests.py). A request by TLS is signed, if the settings say so, right
before it is written, so the times in its signature are true. So is a webhook.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from weir.conf import settings
from weir.conf.secrets import SecretUnusable, secret
from weir.conf.texts.request_headers import SECRET, Named, named_in, with_texts
from weir.conf.texts.request_query import with_query
from weir.signatures import webhooks
from weir.signatures.requests import FIELDS, signer
from weir.workers.fetches.fetcher.http import token_requests
from weir.workers.fetches.fetcher.networks import USUAL, Network
from weir.workers.fetches.fetcher.results.decoding import ACCEPT_ENCODING
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest, request_head
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.methods import SAY_LENGTH
from weir.workers.fetches.targets import UrlParts


class Request(NamedTuple):
    """A request, its body included, and the secrets and tokens in it."""

    unsigned: bytes
    secrets: Mapping[Named, str]
    signatures: tuple[Callable[[], bytes], ...] = ()  # each returns lines that sign the request now

    def ready(self) -> bytes:
        """Return the bytes to write now."""
        if not self.signatures:
            return self.unsigned
        end = self.unsigned.index(b"\r\n\r\n") + 2  # of the head's lines: none of them is empty
        return b"".join((self.unsigned[:end], *(sign() for sign in self.signatures), self.unsigned[end:]))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def request(job: Job, to: UrlParts, *, is_last: bool, network: Network = USUAL) -> Request:
    """Return the job's request by this network; with `is_last`, the connection ends with its answer.

    Raises UnsendableRequest; not for ever if a secret cannot be used, which may be known later, or to another fetcher.
    """
    proxy = network.proxy if to.scheme == "http" else None  # by TLS, it opens a tunnel, and sees nothing
    if job.client is not None:
        return Request(
            token_requests.request(job.client, to, proxy, is_last=is_last),
            {Named(SECRET, job.token_client): job.client.client_secret, **(proxy.secrets if proxy else {})},
            _signature(token_requests.METHOD, to, to.path_and_query),
        )
    given = job.given_headers()
    webhook = _webhook(job, given)
    query = {} if job.has_left_origin else job.site_query
    secrets = _texts(job, named_in(given) | named_in(query))
    try:
        target = with_query(to.path_and_query, query, secrets)
    except UnicodeEncodeError:  # whose text has the secret
        said = "a secret in the query cannot be sent: it must be text in UTF-8"
        raise UnsendableRequest(said, is_permanent=False) from None
    fields = {
        "user-agent": (b"User-Agent", settings.WEIR_FETCH_USER_AGENT.encode("latin-1", "replace")),
        "accept": (b"Accept", b"*/*"),
        "accept-encoding": (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
    }
    if "range" in map(str.lower, given):
        fields["accept-encoding"] = (b"Accept-Encoding", b"identity")  # a part of an encoded body cannot be decoded
    for name, value in given.items():
        fields[name.lower()] = (name.encode("ascii"), _sendable(name, with_texts(value, secrets)))
    headers = [*fields.values(), *(job.validators.headers() if job.validators else ())]
    if is_last:
        headers.append((b"Connection", b"close"))
    body = job.body_content
    if body or job.method in SAY_LENGTH:
        headers.append((b"Content-Length", b"%d" % len(body)))
    if proxy:
        headers += proxy.headers
        secrets |= proxy.secrets
    if webhook:
        secrets |= webhook.secrets
    head = request_head(job.method, to.authority, target, headers, by_proxy=proxy is not None)
    signatures = (*((webhook.lines,) if webhook else ()), *_signature(job.method, to, target, own=fields))
    return Request(head + body, secrets, signatures)


class _Webhook(NamedTuple):
    """What signs a webhook, and the keys with which it does."""

    lines: Callable[[], bytes]
    secrets: Mapping[Named, str]


def _webhook(job: Job, given: dict[str, str]) -> _Webhook | None:
    """Take from these headers what says that they are of a webhook; returns what signs it, None for another request.

    Raises UnsendableRequest if there is no key with which it can be signed.
    """
    if job.endpoint_id is None:
        return None
    message_id, name = given.pop(webhooks.ID, ""), webhooks.named_in(given.pop(webhooks.SIGNATURE, "")) or ""
    try:
        signing = webhooks.signer(name)
    except SecretUnusable as error:
        raise UnsendableRequest(str(error), is_permanent=False) from None
    secrets = {Named(SECRET, f"{name} {place}" if place else name): key for place, key in enumerate(signing.keys)}
    return _Webhook(partial(signing.lines, message_id, job.body_content), secrets)


def _signature(method: str, to: UrlParts, target: str, own: Container[str] = ()) -> tuple[Callable[[], bytes], ...]:
    """Return what signs the request; nothing if it is not to be signed, or has a signature of its `own`.

    Raises UnsendableRequest if it is to be signed, and no key can be used.
    """
    if to.scheme != "https":
        return ()
    try:
        signing = signer()
    except SecretUnusable as error:
        raise UnsendableRequest(str(error), is_permanent=False) from None
    if signing is None or any(name in own for name in FIELDS):
        return ()
    return (partial(signing.lines, method, to.authority, target),)


def _texts(job: Job, names: Iterable[Named]) -> dict[Named, str]:
    """Return these secrets and tokens. Raises UnsendableRequest if a secret cannot be used."""
    try:
        return {named: secret(named.name) if named.kind == SECRET else job.tokens[named.name].text for named in names}
    except SecretUnusable as error:
        raise UnsendableRequest(str(error), is_permanent=False) from None


def _sendable(name: str, value: str) -> bytes:
    if not value.isascii() or not value.isprintable() or value != value.strip():
        said = f"the secret in the header {name} cannot be sent: it must be printable ASCII, on one line"
        raise UnsendableRequest(said, is_permanent=False)
    return value.encode("ascii")
