"""Links that sign in: once, within a minute, from this host."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.test import Client

from project.logins import links
from project.logins.models import Link
from project.management.commands import up
from project.processes import folder
from tests.integration.conftest import InThreads

pytestmark = pytest.mark.django_db(transaction=True)

BASE = "http://127.0.0.1:8000"


def path_of(link: str) -> str:
    return link.removeprefix(BASE)


def test_a_link_signs_in_once() -> None:
    """The second time it says how to get another."""
    path = path_of(links.make(BASE))
    client = Client()
    assert (client.head(path).status_code, client.post(path).status_code) == (405, 405)  # which use nothing up
    first = client.get(path)
    assert (first.status_code, first["Location"]) == (302, "/")
    assert client.get("/").status_code == 200
    second = Client().get(path)
    assert second.status_code == 403
    assert "sign_in_link" in second.text
    for response in (first, second):
        assert response["Referrer-Policy"] == "same-origin"  # the token is in the path
        assert response["Cache-Control"] == "no-store"


def test_a_link_is_good_for_a_minute() -> None:
    """By the database's clock."""
    path = path_of(links.make(BASE))
    lasts = ExpressionWrapper(F("good_until") - Now(), DurationField())
    left = Link.objects.annotate(left=lasts).values_list("left", flat=True).get()
    assert timedelta(seconds=50) < left <= timedelta(minutes=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE weir_logins_link SET good_until = good_until - interval '61 s'")
    assert Client().get(path).status_code == 403
    assert not Link.objects.exists()


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::1", "", "unix:", "::ffff:192.0.2.7"])
def test_a_link_works_on_this_host_only(address: str) -> None:
    """Asked from elsewhere it is not even used up."""
    path = path_of(links.make(BASE))
    assert Client(REMOTE_ADDR=address).get(path).status_code == 403
    assert Client(REMOTE_ADDR="::ffff:127.0.0.1").get(path).status_code == 302


def test_a_new_link_takes_old_ones_away_and_no_others() -> None:
    """The table does not grow, and who was given a link before may still use it."""
    links.make(BASE)
    Link.objects.update(good_until=F("good_until") - timedelta(seconds=61))
    good = path_of(links.make(BASE))
    links.make(BASE)
    assert Link.objects.count() == 2
    assert Client().get(good).status_code == 302


def test_a_link_of_a_user_who_may_sign_in_no_more_is_refused() -> None:
    """Though it is good for a minute."""
    path = path_of(links.make(BASE))
    User.objects.update(is_active=False)
    assert Client().get(path).status_code == 403


def test_of_many_at_once_one_gets_in(in_threads: InThreads) -> None:
    """Whoever is first."""
    token = path_of(links.make(BASE)).split("/")[-2]
    assert sum(user is not None for user in in_threads(8, lambda _n: links.use(token))) == 1


def test_a_made_up_link_is_refused() -> None:
    """Whatever it is made of."""
    assert links.use("\ud800") is None
    for token in ("x", "%00", "a" * 2_000, "%F0%9F%98%80"):
        assert Client().get(f"/sign-in/with/{token}/").status_code in {403, 404}


def test_the_token_is_not_in_the_database() -> None:
    """Who reads the table gets in nowhere."""
    token = path_of(links.make(BASE)).split("/")[-2]
    [row] = Link.objects.values_list("token_hash", flat=True)
    assert bytes(row) == hashlib.sha256(token.encode()).digest()
    assert len(token) >= 43  # of 32 random bytes


def test_the_operator_may_look_and_nothing_else() -> None:
    """No password, no staff; nobody can sign in so by the form."""
    user = links.operator()
    assert user.get_all_permissions() == {"weir_ops.view"}
    assert not user.has_usable_password()
    assert not user.is_staff


def _registers() -> User:
    return User.objects.create_user(links.OPERATOR, "mallory@elsewhere.example", "mallorys-password-1")


def _by_another_service() -> User:
    """Return one who signs in by another service, and so has no password here."""
    return User.objects.create_user(links.OPERATOR, "mallory@elsewhere.example")


def _may_look(*, is_staff: bool = False, is_superuser: bool = False) -> User:
    user = User.objects.create_user(links.OPERATOR, is_staff=is_staff, is_superuser=is_superuser)
    user.user_permissions.add(Permission.objects.get(content_type__app_label="weir_ops", codename="view"))
    return user


def _has_got_a_password() -> User:
    user = links.operator()
    user.set_password("somebodys-password-1")
    user.save()
    return user


def _may_look_no_more() -> User:
    links.operator().user_permissions.clear()
    return User.objects.get()


def _is_closed() -> User:
    links.operator()
    User.objects.update(is_active=False)
    return User.objects.get()


SOMEBODYS = [
    *(_registers, _by_another_service, _has_got_a_password, _may_look_no_more, _is_closed),
    *(partial(_may_look, is_staff=True), partial(_may_look, is_superuser=True)),
]


@pytest.mark.parametrize("made", SOMEBODYS)
def test_somebodys_user_of_that_name_gains_nothing(made: Callable[[], User]) -> None:
    """Neither by the command nor by `up`, which say so in a sentence; and nobody is signed in as that user."""
    rights = made().get_all_permissions()
    with pytest.raises(CommandError, match=r"There is a user 'operator' that .*: no link signs in as that user"):
        call_command("sign_in_link", port=8123)
    assert up._pages(BASE, "python manage.py sign_in_link").startswith(f"{BASE}/: There is a user")
    assert not Link.objects.exists()
    assert User.objects.get().get_all_permissions() == rights


def test_the_operator_of_an_earlier_release_is_signed_in() -> None:
    """It was made so, and may have been given more since."""
    user = _may_look()
    user.user_permissions.add(Permission.objects.get(codename="change_site"))
    assert links.operator() == user
    assert user.get_all_permissions() == {"weir_ops.view", "weir_ratelimit.change_site"}


def test_links_that_are_made_at_once_are_of_one_operator(in_threads: InThreads) -> None:
    assert len(set(in_threads(4, lambda _n: links.operator().pk))) == 1
    assert User.objects.get().get_all_permissions() == {"weir_ops.view"}


def test_no_operator_is_left_without_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next link would call that user somebody else's."""

    def away() -> NoReturn:
        raise OperationalError("away")

    with monkeypatch.context() as outage:
        outage.setattr(links, "_may_view", away)
        with pytest.raises(OperationalError):
            links.operator()
    assert not User.objects.exists()
    assert links.operator().get_all_permissions() == {"weir_ops.view"}


def test_without_an_option_the_link_is_for_where_up_listens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only that of this folder and database; PORT counts where none runs, and an option always."""

    def base(**options: int) -> str:
        call_command("sign_in_link", **options)
        return capsys.readouterr().out.partition("/sign-in/")[0]

    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    monkeypatch.delenv("PORT", raising=False)
    assert base() == BASE
    monkeypatch.setenv("PORT", "8100")
    assert base() == "http://127.0.0.1:8100"
    monkeypatch.setenv("PORT", "abc")
    with pytest.raises(CommandError, match=r"^PORT must be .*, not 'abc'"):
        base()
    monkeypatch.setenv("PORT", "8100")
    with folder.held(tmp_path, 26000, {}):
        assert base() == "http://127.0.0.1:26000"
        assert base(port=8123) == "http://127.0.0.1:8123"
        monkeypatch.setenv("DATABASE_URL", "postgresql://weir@db.example/weir")
        assert base() == "http://127.0.0.1:8100"


def test_the_command_prints_a_link_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    """For the port that it is told."""
    call_command("sign_in_link", port=8123)
    link = capsys.readouterr().out.strip()
    assert Client().get(link.removeprefix("http://127.0.0.1:8123")).status_code == 302
