"""ATOMIC_REQUESTS gives a project's views a transaction each, and Weir's none: they say themselves what commits."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.handlers.base import BaseHandler
from django.db import OperationalError, connection, connections
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pydantic import SecretStr
from pytest_django import Settings

from tests import programs
from tests.conftest import ROOMS
from weir.postgres.admin import TableAdmin
from weir.postgres.own_commits import commits_itself
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = [
    *("/", "/sites/", "/fetches/", "/unread/", "/emails/", "/audit/", "/sites/a.example/", "/sites/a.example/pause/"),
    *("/metrics", "/bell/", "/livez", "/readyz", "/healthz", "/api/openapi.json", "/sign-in/"),
    *(
        "/admin/weir_ratelimit/site/",
        "/admin/weir_fetches/fetch/",
        "/admin/weir_mail/email/",
        "/admin/weir_notifications/notification/",
    ),
]


@pytest.fixture(autouse=True)
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make requests atomic."""
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


def views(patterns: list[Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from views(pattern.url_patterns, above + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield above + str(pattern.pattern), pattern.callback


def is_of_django(route: str, view: Any) -> bool:
    """Tell whether it is a page of the admin about itself, or about a table of others."""
    of_table = getattr(view, "model_admin", None)
    is_of_others = of_table is not None and not isinstance(of_table, TableAdmin)
    return is_of_others or hasattr(view, "admin_site") or route in {"admin/login/", "admin/auth/user/<id>/password/"}


def test_no_view_of_weirs_gets_a_transaction() -> None:
    """A view that is added is held to the same; those of Django's admin are Django's."""
    found = [(route, view) for route, view in views(get_resolver().url_patterns) if not is_of_django(route, view)]
    assert len(found) > 80
    assert [route for route, view in found if "default" not in getattr(view, "_non_atomic_requests", ())] == []


def test_no_other_database_of_a_project_begins_a_transaction_for_weirs_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be away, of which they know nothing."""
    monkeypatch.setitem(connections.settings, "legacy", {**connections.settings["default"], "ATOMIC_REQUESTS": True})

    @commits_itself
    def view(_request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    assert BaseHandler().make_view_atomic(view) is view


def test_each_table_of_weirs_has_an_admin_that_is_weirs() -> None:
    ours = [made for model, made in admin.site._registry.items() if model.__module__.partition(".")[0] in ROOMS]
    assert [made for made in ours if not isinstance(made, TableAdmin)] == []


@pytest.mark.parametrize("path", PAGES)
def test_each_page_answers_as_ever(path: str, client: Client, settings: Settings) -> None:
    settings.WEIR_METRICS_TOKEN = SecretStr("word")
    site_settings.set_rate("a.example", "2/s")
    headers = {"authorization": "Bearer word"} if path == "/metrics" else None
    if path != "/sign-in/":
        client.force_login(User.objects.create_superuser("root"))
    answer = client.get(path, headers=headers)
    assert answer.status_code in ({200, 503} if path in {"/readyz", "/healthz"} else {200})


def test_a_form_does_what_it_says(client: Client) -> None:
    site_settings.set_rate("a.example", "2/s")
    client.force_login(User.objects.create_superuser("root"))
    seen = client.get("/sites/a.example/pause/").context["form"].initial
    answer = client.post("/sites/a.example/pause/", {**seen, "why": "a test", "for": ""})
    assert (answer.status_code, Site.objects.get().paused_until is not None) == (302, True)


@pytest.mark.usefixtures("messages")
def test_programs_are_answered() -> None:
    """What they ask for is done once, and committed."""
    programs.seed()
    program = programs.Program(programs.token())
    assert program.call("GET", "/sites").status_code == 200
    answers = [
        program.call("POST", "/fetches", {"urls": ["https://a.example/"]}, headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_who_asks_for_health_needs_no_transaction(path: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """With PostgreSQL away they would say that Weir is broken."""

    def away(*_arguments: object, **_named: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(connection, "ensure_connection", away)
    assert client.get(path).status_code in {200, 503}
