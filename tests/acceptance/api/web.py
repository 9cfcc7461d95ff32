"""A web process that programs call, and what they call it with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.acceptance import web_process
from tests.acceptance.conftest import Cluster


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


def token(cluster: Cluster, *scopes: str, name: str = "shop", rate: str = "1000/s") -> str:
    """Create a token as an operator does; returns its secret."""
    words = [word for scope in scopes for word in ("--scope", scope)]
    line = ("tokens", "create", name, *words, "--rate", rate, "--burst", "10000", "--who", "pat", "--json")
    secret: str = json.loads(web_process.manage(cluster, *line))["token"]
    return secret


def call(
    url: str, secret: str, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
) -> Answer:
    """Send a request, and return what came back, of any status."""
    sent = {"Authorization": f"Bearer {secret}", **(headers or {})}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    request = Request(f"{url}/api/v1{path}", data=data, headers=sent, method=method)  # noqa: S310
    try:
        with urlopen(request, timeout=30) as found:  # noqa: S310
            return Answer(found.status, _lower(found.headers), found.read())
    except HTTPError as error:
        return Answer(error.code, _lower(error.headers), error.read())


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
