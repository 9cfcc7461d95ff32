"""Token requests: the bytes of a request for an access token (RFC 6749, 4.4.2), made from what a secret says. Pure."""

import base64
from typing import Final
from urllib.parse import quote_plus, urlencode

from weir.conf import settings
from weir.conf.oauth_clients import BODY, OAuthClient
from weir.workers.fetches.fetcher.networks import Proxy
from weir.workers.fetches.fetcher.results.decoding import ACCEPT_ENCODING
from weir.workers.fetches.fetcher.wire.requests import request_head
from weir.workers.fetches.targets import UrlParts

METHOD: Final = "POST"


def request(client: OAuthClient, to: UrlParts, proxy: Proxy | None = None, *, is_last: bool) -> bytes:
    """Return the client's request for a token; with `is_last`, the connection ends with its answer.

    With a proxy, it is for the proxy, which passes it on.
    """
    fields = [("grant_type", "client_credentials"), *client.parameters]
    headers = [
        (b"User-Agent", settings.WEIR_FETCH_USER_AGENT.encode("latin-1", "replace")),
        (b"Accept", b"application/json"),
        (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
        (b"Content-Type", b"application/x-www-form-urlencoded"),
    ]
    if client.auth == BODY:
        fields += [("client_id", client.client_id), ("client_secret", client.client_secret)]
    else:
        headers.append((b"Authorization", f"Basic {_credentials(client)}".encode()))
    body = urlencode(fields).encode()
    headers.append((b"Content-Length", b"%d" % len(body)))
    if is_last:
        headers.append((b"Connection", b"close"))
    if proxy:
        headers += proxy.headers
    return request_head(METHOD, to.authority, to.path_and_query, headers, by_proxy=proxy is not None) + body


def _credentials(client: OAuthClient) -> str:
    """Return the id and the secret as Basic authentication has them: each encoded as in a form (RFC 6749, 2.3.1)."""
    return base64.b64encode(f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}".encode()).decode()
