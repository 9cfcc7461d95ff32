"""Bad requests are refused as a stated problem, store nothing, and leave no traceback: over a real web process."""

import http.client
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from tests import programs
from tests.acceptance.api import bad_requests, web
from tests.acceptance.api.bad_requests import Bad
from tests.acceptance.web_process import Shared
from tests.programs import HOST
from weir.api.front import MOST_BYTES
from weir.api.http.problems import KINDS, MEDIA_TYPE
from weir.api.tokens.models import Token

STORED = (
    "weir_fetches_fetch",
    "weir_ratelimit_site",
    "weir_notifications_notification",
    "weir_mail_resolution",
    "weir_mail_email",
)
TABLES = (
    *STORED,
    "weir_audit_entry",
    "weir_api_keptanswer",
    "weir_tokens_token",
    "weir_mail_pausedkind",
    "weir_fetches_robotsfile",
)


def stored() -> dict[str, str]:
    """Return what a bad request could have changed."""
    columns = {"weir_ratelimit_site": "ROW(t.name, t.interval, t.burst, t.paused_until)", "weir_tokens_token": "t.name"}
    with connection.cursor() as cursor:
        found = {}
        for table in TABLES:
            row = columns.get(table, "t")
            cursor.execute(
                f"SELECT md5(coalesce(string_agg({row}::text, '|' ORDER BY {row}::text), '')) FROM {table} t"
            )
            found[table] = cursor.fetchone()[0]
    return found


def send(url: str, bad: Bad, secret: str) -> tuple[int, dict[str, str], bytes]:
    """Send the request, its path as it is."""
    to = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    to.putrequest(bad.method, bad.path if bad.path.startswith("/api") else f"/api/v1{bad.path}")
    if bad.has_token and secret:
        to.putheader("Authorization", f"Bearer {secret}")
    for name, value in bad.headers.items():
        to.putheader(name, value)
    if bad.body or bad.method in {"POST", "PUT"}:
        to.putheader("Content-Length", str(len(bad.body)))
    to.endheaders(bad.body or None)
    answer = to.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    to.close()
    return found


def wrong(bad: Bad, status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if status != bad.status:
        yield f"{bad.name}: {status} instead of {bad.status}, {body[:300]!r}"
    if headers.get("content-type") != MEDIA_TYPE:
        yield f"{bad.name}: of type {headers.get('content-type')}"
    if "set-cookie" in headers or "x-evil" in headers:
        yield f"{bad.name}: headers {headers}"
    if bad.method != "HEAD" and headers.get("content-type") == MEDIA_TYPE:
        problem: dict[str, Any] = json.loads(body)
        if problem["type"] != f"/api/problems/{bad.kind}" or problem["status"] != status or not problem["detail"]:
            yield f"{bad.name}: {problem} instead of {bad.kind}"


def test_bad_requests_are_refused_and_store_nothing(shared_web: Shared) -> None:
    url = shared_web.url
    world = programs.seed()
    secret = programs.token()
    cases = bad_requests.all_of(world)
    assert len(cases) >= 250
    before = stored()
    found = [fault for bad in cases for fault in wrong(bad, *send(url, bad, secret))]
    assert found == [], "\n".join(found)
    assert stored() == before
    log = shared_web.logged()
    assert "Traceback" not in log
    assert secret not in log
    print(f"{len(cases)} bad requests, each refused as stated")


def test_what_is_no_valid_token_opens_nothing(shared_web: Shared) -> None:
    """Nor does a token anywhere else than in the header, or what a thief can read in the database."""
    url = shared_web.url
    programs.seed()
    secret = programs.token()
    row = Token.objects.get()
    expired, revoked = programs.token(name="expired"), programs.token(name="revoked")
    Token.objects.filter(name="expired").update(expires_at=timezone.now() - timedelta(seconds=1))
    call_command("tokens", "revoke", "revoked", "--who", "pat")
    shown = {
        "nothing": {},
        "another scheme": {"Authorization": f"Basic {secret}"},
        "no scheme": {"Authorization": secret},
        "an empty one": {"Authorization": "Bearer "},
        "a part": {"Authorization": f"Bearer {secret[:-1]}"},
        "more": {"Authorization": f"Bearer {secret}x"},
        "two": {"Authorization": f"Bearer {secret} {secret}"},
        "a list": {"Authorization": f"Bearer {secret}, Bearer {secret}"},
        "one more blank": {"Authorization": f"Bearer  {secret}"},
        "an unknown one": {"Authorization": f"Bearer weir_{'x' * 43}"},
        "its hash": {"Authorization": f"Bearer {row.secret_hash}"},
        "its name": {"Authorization": f"Bearer {row.name}"},
        "an expired one": {"Authorization": f"Bearer {expired}"},
        "a revoked one": {"Authorization": f"Bearer {revoked}"},
        "in a cookie": {"Cookie": f"token={secret}; sessionid={secret}"},
        "in another header": {"X-Api-Key": secret},
        "SQL": {"Authorization": "Bearer ' OR 1=1 --"},
        "a long one": {"Authorization": "Bearer weir_" + "x" * 5_000},
        "not ASCII": {"Authorization": "Bearer weir_\xe9"},
    }
    cases = [
        Bad(
            name=name,
            method="GET",
            path="/fetches",
            headers=headers,
            status=401,
            kind="unauthenticated",
            has_token=False,
        )
        for name, headers in shown.items()
    ]
    in_query = f"/fetches?token={secret}"
    cases.append(Bad(name="query", method="GET", path=in_query, status=401, kind="unauthenticated", has_token=False))
    found = [fault for bad in cases for fault in wrong(bad, *send(url, bad, ""))]
    assert found == []
    assert web.call(url, secret, "GET", "/fetches").status == 200
    assert "Traceback" not in shared_web.logged()


def raw(url: str, *parts: bytes) -> bytes:
    """Send these bytes, and return all that comes back."""
    host, port = urlsplit(url).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as to:
        for part in parts:
            to.sendall(part)
        received = b""
        try:
            while chunk := to.recv(65_536):
                received += chunk
                if b"\r\n\r\n" in received and b"}" in received:
                    break
        except ConnectionResetError:
            pass
    return received


def head(secret: str, *lines: str) -> bytes:
    """Return the head of a POST of fetches."""
    all_lines = ["POST /api/v1/fetches HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {secret}", *lines]
    return "\r\n".join([*all_lines, "Content-Type: application/json", "", ""]).encode()


def test_bodies_without_end_are_cut_off(shared_web: Shared) -> None:
    """In size and in time, whether their length is told or not; without a token, no body is read."""
    url = shared_web.url
    secret = programs.token()
    before = stored()
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    too_large = {
        "told": raw(url, head(secret, f"Content-Length: {MOST_BYTES + 1}")),
        "told as more than there is": raw(url, head(secret, f"Content-Length: {10**15}")),
        "not told": raw(url, head(secret, "Transfer-Encoding: chunked"), *[chunk] * (MOST_BYTES // 0x10000 + 2)),
    }
    assert all(b" 413 " in answer.split(b"\r\n")[0] for answer in too_large.values())
    assert all(b"/api/problems/too-large" in answer for answer in too_large.values())
    slow = raw(url, head(secret, "Content-Length: 100"), b'{"urls"')
    assert b" 408 " in slow.split(b"\r\n")[0]
    assert b"/api/problems/slow-body" in slow
    nobody = head("", "Content-Length: 100").replace(b"Authorization: Bearer \r\n", b"")
    assert b" 401 " in raw(url, nobody).split(b"\r\n")[0]
    assert web.call(url, secret, "POST", "/fetches", {"urls": [f"https://{HOST}/"]}).status == 202
    assert before["weir_fetches_fetch"] != stored()["weir_fetches_fetch"]
    assert "Traceback" not in shared_web.logged()


def test_each_kind_of_problem_has_a_page() -> None:
    program = programs.Program()
    answers = {name: program.call("GET", f"/api/problems/{name}") for name in KINDS}
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(KINDS, 200)
    assert [
        name for name, answer in answers.items() if KINDS[name].title not in unescape(answer.content.decode())
    ] == []
    assert program.call("GET", "/api/problems/nothing").status_code == 404
