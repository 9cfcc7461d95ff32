"""Whoever decides about an unknown e-mail sees what is known of it beside the form, and is led to the next one."""

from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.test import Client

from tests.integration.ops.test_acting import opened, signed_in
from weir.ops.snapshots import Snapshots
from weir.ops.views import emails
from weir.workers.mail import resolving
from weir.workers.mail.models import Act, Email
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)
WHY = {"why": "It is in the log."}


@pytest.fixture
def browser() -> Client:
    return signed_in("weir_mail.resolve_email")


def unknown(*numbers: int) -> list[Email]:
    for number in numbers:
        shipping.ship(Order.objects.create(number=str(number), customer_email=f"kim+{number}@example.com").pk)
        Email.objects.filter(state="pending").update(
            state="unknown",
            phase="after dot",
            last_reply="<b>lost</b> after the dot",
            subject=f"Order {number}",
            relay="smtp.example",
            claim_token=uuid4(),
            sending_since=f"2026-01-{28 - number}T00:00Z",
            ended_at=Now(),
        )
    return list(Email.objects.order_by("pk"))


def test_the_facts_stand_beside_the_form(browser: Client) -> None:
    """Also if the form comes back, as a reason is missing; and what was said of it before."""
    [email] = unknown(1)
    resolving.resolve(email.pk, Act.RESEND, "robin", "Nobody has it.")
    [email] = unknown()
    unknown_again = {"state": "unknown", "claim_token": uuid4(), "sending_since": Now(), "phase": "after dot"}
    Email.objects.update(**unknown_again, ended_at=Now())
    path = f"/emails/{email.pk}/arrived/"
    for answer in (browser.get(path), browser.post(path, {**opened(browser, path), "why": ""})):
        facts = answer.text.partition('id="facts"')[2].partition("</section>")[0]
        known = ("kim+1@example.com", "order.shipped", "Order 1", "after dot", "smtp.example", email.message_id[1:9])
        for fact in known:
            assert fact in facts, fact
        assert "&lt;b&gt;lost&lt;/b&gt; after the dot" in facts
        assert "Nobody has it." in facts
        assert "manage.py emails evidence FILE" in facts
        assert 'class="act"' in answer.text


def test_a_decision_leads_to_the_next_one(browser: Client) -> None:
    """The one that has been unknown for longest; after the last one, the page says that there is none."""
    first, second, third = unknown(1, 2, 3)
    for email, after in ((first, third), (third, second), (second, None)):
        path = f"/emails/{email.pk}/arrived/"
        to = browser.post(path, {**opened(browser, path), **WHY})["Location"]
        page = browser.get(to).text
        assert "Done:</b>" in page
        if after is None:
            assert "No other e-mail is unknown." in page
        else:
            assert f'<a href="/emails/{after.pk}/">The next unknown e-mail</a>' in page


def test_an_act_on_another_email_leads_nowhere(browser: Client) -> None:
    """One that was not unknown."""
    [failed, _] = unknown(1, 2)
    Email.objects.filter(pk=failed.pk).update(state="failed", claim_token=None, sending_since=None)
    path = f"/emails/{failed.pk}/resend/"
    page = browser.get(browser.post(path, {**opened(browser, path), **WHY})["Location"]).text
    assert "Done:</b>" in page
    assert "unknown e-mail</a>" not in page
    assert "No other e-mail" not in page


def test_back_from_a_refusal_shows_what_is_so_now(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page was looked up before, and another person has decided since. Each refusal leads to a page of its own."""
    monkeypatch.setattr(emails, "_emails", Snapshots(least_life_s=60.0))
    [email] = unknown(1)
    page, path = f"/emails/{email.pk}/", f"/emails/{email.pk}/resend/"
    seen = opened(browser, path)
    assert "State: unknown" in browser.get(page).text
    resolving.resolve(email.pk, Act.ARRIVED, "robin", "It is in the log.")
    assert "State: unknown" in browser.get(page).text
    links = []
    for _ in range(2):
        answer = browser.post(path, {**seen, **WHY})
        assert answer.status_code == 409
        links.append(answer.text.rpartition('<p><a href="')[2].partition('"')[0])
        assert "State: sent" in browser.get(links[-1]).text
        assert "Done:" not in browser.get(links[-1]).text
    assert len({*links}) == 2
    assert "no-store" in browser.get(links[0])["Cache-Control"]
