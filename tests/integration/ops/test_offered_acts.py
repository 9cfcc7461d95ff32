"""Pages offer the acts that their visitor may do, and say which they do not offer, and why."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.ops.test_access import LIVE, asked
from tests.integration.ops.test_acting import signed_in
from weir.ops import actions
from weir.ratelimit import site_settings
from weir.workers.events.models import EventLog
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email, PausedKind
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.watches.watching import watch
from weir.workers.webhooks import endpoints

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "a.example"
ALL = sorted({action.permission for deed in actions.DEEDS for action in deed.actions})


@pytest.fixture(autouse=True)
def pages() -> dict[str, set[str]]:
    """Return pages, and the acts that each may offer."""
    site_settings.set_rate(HOST, "3/s")
    queued, failed = request_fetch(f"http://{HOST}/"), request_fetch(f"http://{HOST}/2")
    Fetch.objects.filter(pk=failed.pk).update(state="failed", error="lost", finished_at=Now())
    site_settings.pause(HOST)
    Fetch.objects.update(not_before=database_now() - timedelta(hours=1))
    shipping.ship(Order.objects.create(number="1", customer_email="kim@example.com").pk)
    Email.objects.update(
        state="unknown", phase="after dot", last_reply="lost", claim_token=uuid4(), sending_since=Now(), ended_at=Now()
    )
    PausedKind.objects.create(kind="note", who="eve", why="Why not?")
    site, email = f"/sites/{HOST}/", f"/emails/{Email.objects.get().pk}/"
    fetch = request_fetch(f"http://{HOST}/4", batch="import-7", more_to_come=True)
    batch = f"/batches/{fetch.batch_id}/"
    Fetch.objects.filter(pk=request_fetch(f"http://{HOST}/5", batch="import-7", more_to_come=True).pk).update(
        state="failed", error="lost", finished_at=Now()
    )
    watched = f"/watches/{watch(f'http://{HOST}/3', every=timedelta(days=1)).pk}/"
    EventLog.objects.create(key=uuid4())
    hooks = f"/webhooks/{endpoints.store('orders', f'https://{HOST}/hook', secret='HOOK').pk}/"  # noqa: S106  its name
    return {
        "/": {f"{site}resume/"},
        site: {f"{site}{act}/" for act in ("set", "pause", "resume", "ask-robots")},
        f"/fetches/{queued.pk}/": {f"/fetches/{queued.pk}/cancel/"},
        f"/fetches/{failed.pk}/": {f"/fetches/{failed.pk}/retry/"},
        "/fetches/": {"/fetches/retry/"},
        batch: {f"{batch}{act}/" for act in ("cancel", "retry", "close")},
        watched: {f"{watched}pause/", f"{watched}remove/"},
        "/webhooks/": {"/webhooks/add/"},
        hooks: {f"{hooks}{act}/" for act in ("pause", "test", "remove")},
        "/unread/": {"/unread/reconcile/"},
        "/emails/": {"/emails/kinds/order.shipped/pause/"},
        email: {f"{email}{act}/" for act in ("arrived", "resend", "give-up", "suppress")},
    }


def test_what_a_visitor_may_do_is_offered(pages: dict[str, set[str]]) -> None:
    """On each page, and nothing is said to be missing."""
    browser = signed_in(*ALL)
    for path, acts in pages.items():
        page = browser.get(path).text
        assert {act for act in acts if f'href="{act}' not in page} == set(), path
        assert "Not offered to you" not in page, path


def test_what_a_visitor_may_not_do_is_not_offered(pages: dict[str, set[str]]) -> None:
    """It is named, with the permission that it takes."""
    browser = signed_in()
    for path, acts in pages.items():
        page = browser.get(path).text
        assert {act for act in acts if f'href="{act}' in page} == set(), path
        assert "Not offered to you: " in page, path
    site = browser.get(f"/sites/{HOST}/").text
    assert "Not offered to you: Change settings, Pause, Resume (it takes the permission <code>" in site
    assert "(it takes the permission <code>weir_fetches.change_robotsfile</code>)." in site


def test_only_what_is_lacking_is_left_out() -> None:
    """Another permission is for another act. To name a recipient takes two."""
    Email.objects.update(state="failed", claim_token=None, sending_since=None)
    path = f"/emails/{Email.objects.get().pk}/"
    page = signed_in("weir_mail.redirect_email").get(path).text
    assert f'href="{path}re' not in page
    assert "<code>weir_mail.resolve_email</code> and <code>weir_mail.redirect_email</code>" in page
    page = signed_in("weir_mail.resolve_email", name="eve").get(path).text
    assert (f'href="{path}resend/' in page, f'href="{path}redirect/' in page) == (True, False)


def test_nothing_is_offered_while_nothing_may_be_changed(pages: dict[str, set[str]], settings: Settings) -> None:
    """Whoever looks."""
    settings.WEIR_OPS_READ_ONLY = True
    browser = signed_in(*ALL)
    for path, acts in pages.items():
        page = browser.get(path).text
        assert {act for act in acts if f'href="{act}' in page} == set(), path
        assert "(WEIR_OPS_READ_ONLY is set)." in page, path


def test_an_answer_is_given_again_only_to_those_who_may_do_the_same() -> None:
    """In front of Django, too; and a visitor who gets a permission gets another answer."""
    path = f"/sites/{HOST}/"
    browsers = {name: signed_in(*powers, name=name) for name, powers in (("ada", ALL), ("eve", []), ("kim", []))}
    session = {name: browser.cookies["sessionid"].value for name, browser in browsers.items()}

    def offers(name: str) -> bool:
        return "Pause</a>" in browsers[name].get(path, headers=LIVE).text

    assert [offers(name) for name in browsers] == [True, False, False]
    given = {name: (asked(path, session[name]) or [{}, {"body": b""}])[1]["body"] for name in browsers}
    assert {name: b"Pause</a>" in body for name, body in given.items()} == {"ada": True, "eve": False, "kim": False}
    assert given["eve"] == given["kim"] != b""
    of = Permission.objects.get(content_type__app_label="weir_ratelimit", codename="change_site")
    User.objects.get(username="eve").user_permissions.add(of)
    assert offers("eve")
