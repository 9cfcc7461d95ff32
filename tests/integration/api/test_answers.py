"""What answers have besides their bodies, how long they are kept, and what pages there are."""

import io
import json
import os
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError, ProgrammingError
from django.db.transaction import TransactionManagementError
from django.test import Client
from django.utils import timezone
from psycopg.errors import InFailedSqlTransaction
from pytest_django import Settings

from tests.programs import HOST, USER, Program, World, token
from weir.api import idempotency
from weir.api.http import problems
from weir.api.http.files import PIECE
from weir.api.models import KeptAnswer
from weir.notifications import inbox
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.redis_link.calls import RedisUnreachable
from weir.workers.audit.models import Entry
from weir.workers.fetches import strays
from weir.workers.fetches.models import Fetch, FetchBody

pytestmark = pytest.mark.django_db(transaction=True)
OTHER = 8


@pytest.fixture
def program(world: World) -> Program:  # noqa: ARG001  made in it
    return Program(token())


def test_a_kept_answer_is_given_for_a_day(program: Program) -> None:
    """After that the key is free again, also before the purge has come."""
    key = {"Idempotency-Key": "order-17"}
    body = {"users": [USER], "kind": "news", "title": "Hello again"}

    def post() -> tuple[int, str | None]:
        answer = program.call("POST", "/notifications", body, headers=key)
        return answer.status_code, answer.headers.get("Idempotent-Replayed")

    assert [post(), post()] == [(201, None), (201, "true")]
    other = Program(token(name="other"))
    assert other.call("POST", "/notifications", body, headers=key).headers.get("Idempotent-Replayed") is None
    KeptAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert post() == (201, None)
    assert inbox.unread_count(USER) == 4  # with the one of the world
    assert idempotency.purge() == 1
    assert KeptAnswer.objects.count() == 1


def test_a_refused_request_keeps_no_answer(program: Program) -> None:
    key = {"Idempotency-Key": "order-17"}
    body = {"users": ["nobody"], "kind": "news", "title": "Hello"}
    assert program.call("POST", "/notifications", body, headers=key).status_code == 422
    assert not KeptAnswer.objects.exists()
    assert program.call("POST", "/notifications", {**body, "users": [USER]}, headers=key).status_code == 201


def test_a_fetch_has_headers_of_its_own_that_name_no_secret(program: Program) -> None:
    """A program could send the secret to any site."""
    body: dict[str, Any] = {"urls": ["https://a.example/"], "headers": {"X-Api-Key": "{secret:SHOP}"}}
    refused = program.call("POST", "/fetches", body)
    assert (refused.status_code, "an operator sets them for the site" in refused.text) == (422, True)
    accepted = program.call("POST", "/fetches", {**body, "headers": {"Accept": "text/csv"}, "share": "a"})
    shown = program.call("GET", f"/fetches/{accepted.json()['fetches'][0]['id']}")
    assert (shown.json()["request_headers"], shown.json()["share"]) == ({"Accept": "text/csv"}, "a")
    wrong = program.call("POST", "/fetches", {**body, "headers": {"Host": "b.example"}})
    assert (wrong.status_code, "belongs to the connection" in wrong.text) == (422, True)


def test_the_name_of_a_batch_is_as_long_as_its_prefix_lets_it_be(program: Program) -> None:
    """What goes before it counts, and the refusal says how much is left."""
    body: dict[str, Any] = {"urls": ["https://a.example/"], "batch": "x" * 191}
    assert program.call("POST", "/fetches", body).status_code == 202
    refused = program.call("POST", "/fetches", {**body, "batch": "x" * 192})
    said = "batch must have 191 characters at most: 'api:shop' and a blank go before it."
    assert (refused.status_code, refused.json()["detail"]) == (422, said)


def test_a_program_needs_a_scope_to_change_something_at_a_site(world: World) -> None:
    """Its headers may have the site's secrets. What it sends is the same as from web code."""
    del world
    wanted: dict[str, Any] = {
        "urls": ["https://a.example/"],
        "method": "PUT",
        "json": {"a": [None]},
        "repeatable": True,
    }
    adds = Program(token("weir_fetches.add_fetch", name="adds"))
    refused = adds.call("POST", "/fetches", wanted)
    assert (refused.status_code, "weir_fetches.send_fetch" in refused.text) == (403, True)
    assert adds.call("POST", "/fetches", {"urls": ["https://a.example/"], "method": "HEAD"}).status_code == 202
    sends = Program(token("weir_fetches.add_fetch", "weir_fetches.send_fetch", "weir_fetches.view_fetch"))
    accepted = sends.call("POST", "/fetches", wanted).json()["fetches"][0]["id"]
    fetch = Fetch.objects.get(pk=accepted)
    assert (fetch.method, fetch.request_body) == ("PUT", b'{"a":[null]}')
    shown = sends.call("GET", f"/fetches/{accepted}").json()
    told = {name: shown[name] for name in ("method", "request_body_bytes", "idempotency_key", "redirect_chain")}
    key = str(fetch.idempotency_key)
    assert told == {"method": "PUT", "request_body_bytes": 12, "idempotency_key": key, "redirect_chain": []}


def test_a_program_names_only_the_secrets_that_an_operator_has_named_for_the_site(program: Program) -> None:
    site_settings.set_rate(HOST, headers={"Authorization": "Bearer {secret:SHOP}"})
    any_version = {"If-Match": "*"}
    settings = program.call("GET", f"/sites/{HOST}").json()["settings"]
    assert program.call("PUT", f"/sites/{HOST}", {**settings, "rate": "9/s"}, headers=any_version).status_code == 200
    for path, headers in ((f"/sites/{HOST}", any_version), ("/sites/evil.example", {})):
        for named in (
            {"headers": {"X": "{secret:OTHER}", "Y": "{secret:SHOP|base64}"}},
            {"headers": {"X": "{token:SHOP}"}},
            {"query": {"key": "{secret:SHOP}"}},
            {"network": {"certificate": "{secret:SHOP}"}},
        ):
            refused = program.call("PUT", path, {"rate": "9/s", **named}, headers=headers)
            assert (refused.status_code, "must not name a new secret here" in refused.text) == (422, True)
    assert Site.objects.get(name=HOST).headers == {"Authorization": "Bearer {secret:SHOP}"}


def test_a_program_names_no_proxy_but_that_which_an_operator_has_named(program: Program, settings: Settings) -> None:
    """It could read there what is sent."""
    settings.WEIR_FETCH_PROXIES = ["a.example:3128", "b.example:3128"]
    given: dict[str, Any] = {"rate": "9/s", "network": {"proxy": "http://a.example:3128"}}
    path, any_version = f"/sites/{HOST}", {"If-Match": "*"}
    for where, headers in ((path, any_version), ("/sites/evil.example", {})):
        refused = program.call("PUT", where, given, headers=headers)
        assert (refused.status_code, "must not have a new proxy here" in refused.text) == (422, True)
    site_settings.set_rate(HOST, network=given["network"])
    assert program.call("PUT", path, given, headers=any_version).status_code == 200
    other = {**given, "network": {"proxy": "http://b.example:3128"}}
    assert program.call("PUT", path, other, headers=any_version).status_code == 422


def test_a_pause_says_who_made_it_and_why(program: Program) -> None:
    assert program.call("PUT", f"/sites/{HOST}/pause", {"for": "5m", "why": "They called."}).status_code == 204
    [listed] = [site for site in program.call("GET", "/sites").json()["sites"] if site["name"] == HOST]
    for site in (listed, program.call("GET", f"/sites/{HOST}").json()):
        assert (site["paused_by"], site["paused_why"]) == (Entry.objects.latest("pk").actor, "They called.")


def test_the_etag_is_the_version_of_the_settings(program: Program) -> None:
    seen = program.call("GET", f"/sites/{HOST}")
    version = {"If-Match": seen.headers["ETag"]}
    changed = program.call("PUT", f"/sites/{HOST}", {"rate": "5/s"}, headers=version)
    assert changed.status_code == 200
    assert changed.headers["ETag"] == program.call("GET", f"/sites/{HOST}").headers["ETag"] != seen.headers["ETag"]
    again = program.call("PUT", f"/sites/{HOST}", {"rate": "6/s"}, headers=version)
    assert (again.status_code, Site.objects.get(name=HOST).rate) == (412, "5/s")
    settings = {"rate": "6/s", "refusing": [999, 403], "headers": {"Accept": "text/csv"}}
    set_to = program.call("PUT", f"/sites/{HOST}", settings, headers={"If-Match": again.headers["ETag"]})
    assert set_to.json()["settings"]["refusing"] == [403, 429, 503, 999]
    assert set_to.json()["settings"]["headers"] == {"Accept": "text/csv"}
    shown = program.call("GET", f"/sites/{HOST}")
    assert shown.json()["settings"] == set_to.json()["settings"]
    back = program.call("PUT", f"/sites/{HOST}", shown.json()["settings"], headers={"If-Match": shown.headers["ETag"]})
    assert back.json() == set_to.json(), "what was shown can be sent"
    assert program.call("PUT", "/sites/new.example", {"rate": "5/s"}).status_code == 201
    assert program.call("PUT", "/sites/new.example", {"rate": "6/s"}).status_code == 428


def test_the_notifications_of_others_are_left_alone(program: Program) -> None:
    """An id counts only for the user that the path names."""
    theirs = inbox.notify(OTHER, "news", "For another user").pk
    answer = program.call("POST", f"/users/{USER}/notifications/read", {"ids": [theirs]})
    assert (answer.status_code, answer.json()) == (200, {"changed": 0})
    assert inbox.unread_count(OTHER) == 1
    shown = program.call("GET", f"/users/{USER}/notifications").json()["notifications"]
    assert theirs not in {one["id"] for one in shown}


def test_lists_go_on_where_they_ended(program: Program) -> None:
    inbox.notify_many([USER], "news", "Another one")
    seen, after = [], ""
    while True:
        page = program.call("GET", f"/users/{USER}/notifications?limit=1&after={after}").json()
        seen += [one["title"] for one in page["notifications"]]
        if not (after := page["next"] or ""):
            break
    assert seen == ["Another one", "Hello"]
    urls, after = [], ""
    while True:
        page = program.call("GET", f"/fetches?limit=1&after={after}").json()
        urls += [one["url"] for one in page["fetches"]]
        if not (after := page["next"] or ""):
            break
    assert len(urls) == len(set(urls)) == Fetch.objects.count()


def test_a_waiting_fetch_says_when_to_ask_again(program: Program, world: World) -> None:
    assert 1 <= int(program.call("GET", f"/fetches/{world.queued}").headers["Retry-After"]) <= 3_600
    assert "Retry-After" not in program.call("GET", f"/fetches/{world.done}").headers


def test_a_body_is_given_as_a_file_of_bytes(program: Program, world: World) -> None:
    """A stranger chose it: no browser shows it."""
    answer = program.call("GET", f"/fetches/{world.done}/body")
    assert answer.content == b"<html>"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_a_large_body_is_given_in_pieces_and_a_deleted_one_is_told(program: Program, world: World) -> None:
    """No process holds all of a large one."""
    large = os.urandom(2 * PIECE + 7)
    FetchBody.objects.filter(pk=world.done).update(own=large)
    answer = program.call("GET", f"/fetches/{world.done}/body")
    assert answer.streaming
    assert b"".join(answer.streaming_content) == large
    FetchBody.objects.filter(pk=world.done).update(own=None)
    refused = program.call("GET", f"/fetches/{world.done}/body")
    assert refused.status_code == 404
    assert "WEIR_FETCH_BODY_RETENTION" in refused.json()["detail"]
    assert program.call("GET", f"/fetches/{world.done}").json()["body_is_deleted"] is True


def test_a_body_is_whole_if_its_storage_reads_less_than_it_is_asked_for(
    program: Program, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file does that reads from a connection."""

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 1_000))

    for length in (1_500, PIECE + 1_500):
        with monkeypatch.context() as patched:
            patched.setattr(FetchBody, "open", lambda _body, length=length: Slow(bytes(length)))
            answer = program.call("GET", f"/fetches/{world.done}/body")
            content = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert len(content) == length


def test_a_cookie_opens_nothing_and_none_is_set(program: Program, admin_client: Client) -> None:
    """A session of the pages does not open the API."""
    assert admin_client.get("/api/v1/status").status_code == 401
    assert not program.call("GET", "/status").cookies


def test_the_page_about_the_document_loads_nothing_from_elsewhere() -> None:
    page = Client().get("/api/docs")
    text = page.content.decode()
    assert page.status_code == 200
    assert re.findall(r"""(?:src|href)=["'](?!/)""", text) == []
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    for path in re.findall(r"""(?:src|href)=["'](/[^"']+)""", text):
        assert Client().get(path).status_code == 200, path


def test_the_page_about_the_document_shows_no_other_one() -> None:
    """Swagger UI's DOMPurify has known holes: what it cleans is never a stranger's document."""
    strange = "https://evil.example/api.json"
    page = Client().get("/api/docs", {"url": strange, "configUrl": strange}).content.decode()
    [written] = re.findall(r'id="swagger-settings"[^>]*>(.*?)</script>', page, re.DOTALL)
    settings = json.loads(written)
    assert settings["url"] == "/api/openapi.json"
    assert not settings.get("queryConfigEnabled")
    assert "evil.example" not in page


def test_an_answer_tells_what_was_set_and_not_what_others_set_since(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next request would undo their settings, with their ETag."""
    path = "/sites/new.example"
    seen = program.call("PUT", path, {"rate": "3/s"}).headers["ETag"]
    follow_all = strays.follow_all

    def set_by_another(after: int) -> None:
        monkeypatch.setattr(strays, "follow_all", follow_all)
        site_settings.set_rate("new.example", "77/s")
        follow_all(after)

    monkeypatch.setattr(strays, "follow_all", set_by_another)
    answer = program.call("PUT", path, {"rate": "5/s"}, headers={"If-Match": seen})
    assert (answer.status_code, answer.json()["settings"]["rate"]) == (200, "5/s")
    late = program.call("PUT", path, {"rate": "6/s"}, headers={"If-Match": answer.headers["ETag"]})
    assert late.status_code == 412
    assert Site.objects.get(name="new.example").rate == "77/s"


def test_no_ids_are_no_filter(program: Program) -> None:
    """A program whose list came out empty does not retry a whole site."""
    answer = program.call("POST", "/fetch-retries", {"filter": {"ids": [], "site": HOST}, "dry_run": True})
    assert answer.status_code == 422


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_no_calendar_has_is_refused(program: Program, moment: str) -> None:
    answer = program.call("POST", "/fetches", {"urls": [f"https://{HOST}/"], "not_before": moment})
    assert answer.status_code == 422


def test_an_error_names_the_id_of_its_log_lines(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("weir.api.operations.fetches.fetch_way", fail)
    answer = program.call("GET", "/fetches/1")
    assert (answer.status_code, bool(answer.headers.get("X-Request-ID"))) == (500, True)


def test_a_post_to_nowhere_is_not_refused_as_forged(program: Program) -> None:
    """Django's CSRF middleware would refuse it; it protects only the pages about the API."""
    browser = Client(enforce_csrf_checks=True)
    answer = browser.post("/api/v1/notification", b"{}", content_type="application/json")
    assert (answer.status_code, answer.json()["type"]) == (404, problems.NOT_FOUND.type)
    assert program.call("POST", "/fetches/", {}).status_code == 404


def aborted() -> Exception:
    """Return what Django raises for a statement in a transaction that has failed before."""
    error = InternalError("current transaction is aborted")
    error.__cause__ = InFailedSqlTransaction()
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (IntegrityError("a foreign key"), problems.INVALID),  # trying again does not help
        (DataError("out of range"), problems.INVALID),
        (OperationalError("away"), problems.UNAVAILABLE),
        (InterfaceError("the connection is closed"), problems.UNAVAILABLE),
        (InternalError("a standby takes no writes"), problems.UNAVAILABLE),
        (RedisUnreachable("Redis is away"), problems.UNAVAILABLE),
        (ProgrammingError("no such column"), problems.FAILED),  # waiting does not help
        (TransactionManagementError("within a transaction"), problems.FAILED),
        (aborted(), problems.FAILED),
    ],
)
def test_what_servers_refuse(
    program: Program, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: problems.ProblemKind
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr("weir.notifications.inbox.unread_count", refuse)
    answer = program.call("GET", f"/unread/{USER}")
    assert (answer.status_code, answer.json()["type"]) == (kind.status, kind.type)


def test_an_object_of_very_many_names_is_refused_at_once(program: Program) -> None:
    """Each unknown name would be an entry of the answer."""
    answer = program.call("POST", "/fetches", {str(number): 1 for number in range(200)})
    assert answer.status_code == 422
    assert "more than 100 names" in answer.json()["detail"]
