"""How a request is refused before Django sees it."""

import asyncio
import json

from project.front.refusals import RequestRefused, refuse
from tests.cases import for_each
from tests.unit.front.asgi import Client, scope

STATUSES = (400, 408, 413, 431, 503)  # of all that is refused in this package


def refused(status: int, path: str, root_path: str = "") -> Client:
    client = Client()
    asyncio.run(
        refuse(RequestRefused(status, "Why.", 1), {**scope(root_path + path), "root_path": root_path}, client.send)
    )
    assert (client.status, client.headers[b"connection"], client.headers[b"retry-after"]) == (status, b"close", b"1")
    return client


@for_each("root_path", ["", "/weir"])
@for_each("status", STATUSES)
def test_each_refusal_below_api_is_a_problem(status: int, root_path: str) -> None:
    client = refused(status, "/api/v1/fetches", root_path)
    assert client.headers[b"content-type"] == b"application/problem+json"
    problem = json.loads(client.sent[1]["body"])
    assert (problem["status"], problem["detail"]) == (status, "Why.")
    assert problem["type"].startswith("/api/problems/")


@for_each("status", STATUSES)
def test_each_refusal_elsewhere_is_a_sentence(status: int) -> None:
    client = refused(status, "/sign-in/")
    assert client.headers[b"content-type"] == b"text/plain; charset=utf-8"
    assert client.sent[1]["body"] == b"Why.\n"
