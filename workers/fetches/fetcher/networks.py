"""Networks: how the site of a job is reached, with the texts of the secrets that its settings name.

A connection is used again only for the same way: by the same proxy, as the same user, with the same authorities and
the same certificate. A TLS context is made once for each pair of authorities and certificate; a process keeps the
last MOST_CONTEXTS.
"""

import base64
import hashlib
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Final, NamedTuple

from weir.conf import settings
from weir.conf.secrets import SecretUnusable, secret
from weir.conf.texts.request_headers import SECRET, Named
from weir.conf.texts.site_network import CA, CERTIFICATE, PROXY, ProxyParts, proxy_parts, secret_named
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest
from weir.workers.fetches.fetcher.wire.tls import context
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.targets import UrlParts

MOST_CONTEXTS: Final = 100
BOM: Final = "\ufeff"


class Pem(NamedTuple):
    """The text of a secret with certificates, or keys."""

    name: str
    text: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Proxy(NamedTuple):
    """A proxy, and the headers that say who asks it."""

    host: str
    port: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    secrets: Mapping[Named, str] = MappingProxyType({})  # in the headers

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.host}:{self.port}>"

    @property
    def place(self) -> UrlParts:
        return UrlParts("http", self.host, self.port, "", "/")


class Network(NamedTuple):
    """A way to a site."""

    key: str = ""  # the same for the same way; it shows no secret
    proxy: Proxy | None = None
    ca: Pem | None = None
    certificate: Pem | None = None

    @property
    def has_context(self) -> bool:
        """Return whether TLS needs a context of its own."""
        return self.ca is not None or self.certificate is not None


USUAL: Final = Network()


def network_of(job: Job) -> Network:
    """Return the way to the site of this job. Raises UnsendableRequest, not for ever, if there is none."""
    if not (given := job.site_network):
        return USUAL
    try:
        proxy = _proxy(given[PROXY]) if PROXY in given else None
        ca, certificate = (_pem(given[name]) if name in given else None for name in (CA, CERTIFICATE))
    except SecretUnusable as error:
        raise UnsendableRequest(str(error), is_permanent=False) from None
    texts = [proxy and (proxy.place, *proxy.secrets.values()), ca and ca.text, certificate and certificate.text]
    return Network(hashlib.sha256(json.dumps(texts).encode()).hexdigest(), proxy, ca, certificate)


def refusal_of_proxy(network: Network) -> str:
    """Return a sentence about what the proxy refuses with 407; it names the secret, and quotes nothing of it."""
    proxy = network.proxy or Proxy("", 0)
    place = ProxyParts(proxy.host, proxy.port, "").place
    named = ", ".join(secret.name for secret in proxy.secrets)
    why = f"it does not accept the secret {named}" if named else "it asks for credentials, and the network names none"
    return f"not connected to the site: its proxy {place} answers 407: {why}"


def _pem(value: str) -> Pem:
    name = secret_named(value)
    return Pem(name, secret(name).replace(BOM, ""))  # editors write one before the first line, of each joined file


def _proxy(url: str) -> Proxy:
    parts = proxy_parts(url)
    if parts.place not in settings.WEIR_FETCH_PROXIES:
        said = f"not connected to the site: WEIR_FETCH_PROXIES does not allow its proxy {parts.place}"
        raise UnsendableRequest(said, is_permanent=False)
    if not parts.secret:
        return Proxy(parts.host, parts.port)
    text = secret(parts.secret)
    basic = f"Basic {base64.b64encode(text.encode()).decode()}".encode()
    return Proxy(parts.host, parts.port, ((b"Proxy-Authorization", basic),), {Named(SECRET, parts.secret): text})


@lru_cache(maxsize=MOST_CONTEXTS)
def context_of(ca: Pem | None, certificate: Pem | None, *, checks_names: bool) -> ssl.SSLContext:
    """Return a context that trusts these authorities, and not the system's, and shows this certificate.

    It may take 20 ms, and so is not for the loop's thread. With `checks_names`, OpenSSL checks host names; otherwise
    the class Tls does. Raises UnsendableRequest, not for ever, for a secret without what is needed.
    """
    try:
        made = context(_certificates(ca.text) if ca else None)
    except (ssl.SSLError, TypeError, ValueError):  # which may quote the text
        said = f"the secret {ca.name if ca else ''} has no certificates of authorities in PEM"
        raise UnsendableRequest(said, is_permanent=False) from None
    if certificate:
        try:
            with _in_file(certificate.text) as path:
                made.load_cert_chain(path, password="")  # without a password, OpenSSL would ask on the terminal
        except (OSError, ValueError):  # ssl.SSLError is an OSError
            said = f"the secret {certificate.name} has no certificate with its key in PEM, without a password"
            raise UnsendableRequest(said, is_permanent=False) from None
    made.check_hostname = checks_names
    return made


def _certificates(text: str) -> str:
    """Return the text without the lines that are no PEM, such as the name of an authority: `ssl` takes ASCII alone.

    Raises ValueError if nothing is left: `ssl` would trust the system's authorities then.
    """
    if left := "\n".join(line for line in text.splitlines() if line.isascii()).strip():
        return left
    raise ValueError("no line is ASCII")


@contextmanager
def _in_file(text: str) -> Iterator[str]:
    """Yield the path of a file with the text, in memory where the system has such files: Python reads no other keys."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("weir"), "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with NamedTemporaryFile() as file:  # which only this user can read
            file.write(text.encode())
            file.flush()
            yield file.name
