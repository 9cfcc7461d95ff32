"""Beside a replica: each query of Weir's goes to the primary, whatever a project's routers say.

While any test runs, what Weir's router leaves to others fails: `tests.conftest`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connections, router
from django.db.models import Model
from django.db.utils import ConnectionRouter
from django.utils.connection import ConnectionDoesNotExist
from django.utils.functional import cached_property
from pytest_django import Settings

from project.checkout import CHECKOUT
from project.logins import links
from tests.conftest import ROOMS
from tests.integration.conftest import StartPython
from weir.api.tokens import actions as tokens
from weir.api.tokens.models import Token
from weir.notifications import inbox
from weir.postgres import weir_apps
from weir.postgres.weir_apps import WeirApp
from weir.ratelimit.models import Site
from weir.workers.audit.acting import of_shell
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.orders import shipping
from weir.workers.orders.models import Order


def package_of(model: type[Model]) -> str:
    return model.__module__.partition(".")[0]


PACKAGES = {*ROOMS, "django_celery_beat"}  # beat's tables are another's, and Weir's beat writes them
WEIRS = [model for model in apps.get_models(include_auto_created=True) if package_of(model) in PACKAGES]


class Greedy:
    """Has all rows read from a replica, which the settings do not have: what is read there fails."""

    def db_for_read(self, _model: type[Model], **_hints: Any) -> str:
        return "elsewhere"

    def db_for_write(self, _model: type[Model], **_hints: Any) -> str:
        return "default"

    def allow_migrate(self, _db: str, _app_label: str, **_hints: Any) -> bool:
        return True


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a project's router send all reads to a replica."""
    monkeypatch.setattr(router, "routers", [router.routers[0], Greedy()])


@pytest.mark.usefixtures("replica")
@pytest.mark.parametrize("model", WEIRS, ids=lambda model: model._meta.label)
def test_each_table_of_weirs_is_read_and_made_where_it_is_written(model: type[Model]) -> None:
    """So is one that is added, if its app is a WeirApp."""
    assert router.db_for_read(model) == router.db_for_write(model) == "default"
    assert router.allow_migrate_model("default", model)
    assert not router.allow_migrate_model("elsewhere", model)


class OfTenants:
    """As django-tenants': has the tables of shared apps made in the public schema alone."""

    def allow_migrate(self, db: str, _app_label: str, **_hints: Any) -> bool:
        return bool(connections[db].schema_name == "public")  # type: ignore[attr-defined]  # of such a connection


@pytest.mark.parametrize("model", WEIRS, ids=lambda model: model._meta.label)
def test_each_table_of_weirs_is_made_once_where_each_tenant_has_a_schema(
    model: type[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for in a tenant's own would wait for nobody: workers see that of the public schema."""
    monkeypatch.setattr(router, "routers", [router.routers[0], OfTenants()])
    for schema, has_tables in (("public", True), ("acme", False)):
        monkeypatch.setattr(connections["default"], "schema_name", schema, raising=False)
        assert router.allow_migrate_model("default", model) is has_tables


def test_a_test_that_sets_routers_of_its_own_has_weirs_before_them(settings: Settings) -> None:
    """Then, and when it has ended: Django makes the list anew."""
    settings.DATABASE_ROUTERS = [f"{__name__}.Greedy"]
    assert router.db_for_read(Order) == "default"
    assert router.db_for_read(apps.get_model("auth.Group")) == "elsewhere"
    settings.DATABASE_ROUTERS = []
    assert router.db_for_read(Order) == "default"


def test_who_asked_the_routers_before_all_apps_were_ready_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an app of the project, when it is made ready."""
    early = cached_property(lambda _router: [Greedy()])
    early.__set_name__(ConnectionRouter, "routers")
    with monkeypatch.context() as patch:
        patch.setattr(ConnectionRouter, "routers", early)
        patch.setattr(router, "routers", [Greedy()])
        weir_apps.ask_first()
        assert router.db_for_read(Order) == "default"
    assert router.db_for_read(Order) == "default"


FEWER_APPS = """
from django.apps import apps
from weir.postgres import weir_apps
apps.set_available_apps(["weir.ratelimit"])
print(weir_apps.is_weirs("weir_orders"), flush=True)
"""


def test_a_test_that_has_fewer_apps_leaves_weirs_known(start_python: StartPython, db: None) -> None:  # noqa: ARG001  its name
    """Also where it is the first that asks."""
    assert start_python(FEWER_APPS).communicate(timeout=60)[0] == "True\n"


def test_each_app_of_weirs_says_that_it_is_one() -> None:
    """Those with tables, at least."""
    ours = [config for config in apps.get_app_configs() if config.name.partition(".")[0] in ROOMS]
    assert [config.name for config in ours if config.models_module and not isinstance(config, WeirApp)] == []


@pytest.mark.usefixtures("replica")
@pytest.mark.django_db(transaction=True)
def test_what_was_just_written_is_read() -> None:
    """Also in the tables of others: who signs in by a link, and what they may do."""
    assert inbox.notify(7, "k", "t", dedupe_key="once").pk == inbox.notify(7, "k", "t", dedupe_key="once").pk
    first = request_fetch("http://a.example/", dedupe=True)
    assert request_fetch("http://a.example/", dedupe=True).pk == first.pk
    assert Site.objects.get().fetch_set.get().site == Site.objects.get()
    order = Order.objects.create(number="R-1", customer_email="kim@customers.example")
    shipping.ship(order.pk)
    assert order.shipped_email.state == "pending"
    assert tokens.create(of_shell(), "program", ["weir_fetches.add_fetch"]).token == Token.objects.get()
    link = links.make("http://h")
    user = links.use(link.rstrip("/").rpartition("/")[2])
    assert user is not None
    assert user.username == links.OPERATOR


@pytest.mark.usefixtures("replica")
@pytest.mark.django_db
def test_the_replica_of_these_tests_answers_nobody() -> None:
    """Or they would prove nothing."""
    with pytest.raises(ConnectionDoesNotExist):
        apps.get_model("auth.Group").objects.exists()


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from (path for path in (CHECKOUT / room).rglob("*.py"))


def test_no_code_of_weirs_names_another_database() -> None:
    """A name that stands in the code would pass any router by; one that is handed on is the caller's."""
    named = [
        f"{path.relative_to(CHECKOUT)}:{call.lineno}"
        for path in sources()
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"using", "db_manager"}
        and any(isinstance(argument, ast.Constant) for argument in call.args)
    ]
    assert named == []
