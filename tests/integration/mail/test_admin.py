"""The admin pages of e-mails: what is listed, what is resolved, by whom, and who may not."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from tests.integration.conftest import Message
from tests.integration.fetches.test_admin import act, page
from weir.postgres import short_paginator
from weir.workers import task_names
from weir.workers.mail import resolving
from weir.workers.mail.admin import emails as admin
from weir.workers.mail.models import Act, Email, Resolution
from weir.workers.mail.phases import Phase, State
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

EMAIL = "admin:weir_mail_email"
EMAILS = f"{EMAIL}_changelist"
REPLY = "TimeoutError: timed out <b>"


def order(number: str, address: str = "customer@example.com") -> Order:
    created: Order = Order.objects.create(number=number, customer_email=address)
    return created


def shipped(number: str, **fields: Any) -> Email:
    """Ship an order; returns its e-mail, with these fields."""
    placed = order(number)
    shipping.ship(placed.pk)
    Email.objects.filter(pk=placed.shipped_email.pk).update(**fields)
    return placed.shipped_email


def unknown(number: str) -> Email:
    """Return an e-mail of which nobody knows what became."""
    known = {"phase": Phase.AFTER_DOT, "last_reply": REPLY, "claimed_by": "mail-1:77"}
    return shipped(number, state=State.UNKNOWN, claim_token=uuid4(), sending_since=Now(), **known)


def failed(number: str) -> Email:
    return shipped(number, state=State.FAILED, phase=Phase.NOT_BEGUN, last_reply="550 no such recipient")


def client_of(*permissions: str) -> Client:
    """Return a browser in which somebody with these permissions on e-mails and orders is logged in."""
    user = User.objects.create_user("somebody", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label__in=("weir_mail", "weir_orders"), codename__in=permissions)
    )
    client = Client()
    client.force_login(user)
    return client


def confirm(
    client: Client, action: str, why: str, *ids: int, seen: Mapping[int, str] | None = None, **query: str
) -> str:
    """Return the page that follows a confirmed action, on e-mails in the versions that were `seen`."""
    versions = {f"seen-{email_id}": version for email_id, version in (seen or {}).items()}
    values = {"action": action, "_selected_action": ids, "confirmed": "yes", "why": why, **versions}
    response = client.post(reverse(EMAILS, query=query), values, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def states() -> dict[int, str]:
    return dict(Email.objects.values_list("pk", "state"))


# --- looking ---------------------------------------------------------------------------------------


def test_emails_are_listed_newest_first_and_filtered_by_state(admin_client: Client) -> None:
    """The list says whom each is for and what the mail server said last; the filter leaves one state."""
    unknown("A-1")
    failed("A-2")
    shown = page(admin_client, EMAILS)
    assert shown.index("A-2") < shown.index("A-1")
    assert all(text in shown for text in ("customer@example.com", "TimeoutError: timed out &lt;b&gt;", "mail-1:77"))
    assert "A-2" not in page(admin_client, EMAILS, state__exact="unknown")
    assert "A-1" not in page(admin_client, EMAILS, q="A-2")


def test_an_emails_page_shows_it_with_its_resolutions_and_has_no_form(admin_client: Client) -> None:
    """All that is known of it, and all that was said about it; nothing there can be saved, added or deleted."""
    email = unknown("A-1")
    resolving.resolve(email.pk, Act.RESEND, who="Ada", why="The mail server lost its queue")
    Email.objects.update(last_reply="451 later")
    shown = page(admin_client, f"{EMAIL}_change", email.pk)
    assert all(
        text in shown
        for text in ("&lt;order.shipped-", "451 later", "Ada", "The mail server lost its queue", "timed out")
    )
    assert 'name="_save"' not in shown
    assert 'name="resolutions-0-why"' not in shown
    for view in ("change", "delete"):
        assert admin_client.post(reverse(f"{EMAIL}_{view}", args=[email.pk]), {"post": "yes"}).status_code == 403
    assert admin_client.get(reverse(f"{EMAIL}_add")).status_code == 403
    assert 'value="delete_selected"' not in page(admin_client, EMAILS)


def test_counting_stops_at_what_anybody_would_leaf_through(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list does not count millions of rows."""
    monkeypatch.setattr(short_paginator, "MOST_COUNTED", 3)
    for number in range(5):
        shipped(f"A-{number}")
    assert "3 e-mails" in page(admin_client, EMAILS)


# --- resolving -----------------------------------------------------------------------------------------


def test_nothing_is_resolved_before_it_is_confirmed(admin_client: Client) -> None:
    """The action leads to a page that shows what is known of each, and what is left alone."""
    chosen, waiting = unknown("A-1"), shipped("A-2")
    asked = act(admin_client, EMAIL, "arrived", chosen.pk, waiting.pk)
    for text in ("A-1", "after dot", "TimeoutError: timed out &lt;b&gt;", "mail-1:77", "It arrived: 1 e-mail"):
        assert text in asked
    left_alone = asked.index("That can be done only where the state is unknown.")
    assert asked.index("A-1") < left_alone < asked.index("A-2")
    assert f'name="_selected_action" value="{chosen.pk}"' in asked
    assert f'name="_selected_action" value="{waiting.pk}"' not in asked
    assert "may get it twice" not in asked
    assert states() == {chosen.pk: State.UNKNOWN, waiting.pk: State.PENDING}
    assert not Resolution.objects.exists()


def test_sending_again_warns_and_takes_failed_ones_too(admin_client: Client) -> None:
    """The page says what may happen, and lists failed e-mails among those that are sent again."""
    chosen = [unknown("A-1").pk, failed("A-2").pk]
    asked = act(admin_client, EMAIL, "send_again", *chosen, shipped("A-3").pk)
    assert "may get it twice" in asked
    assert "Send it again: 2 e-mails" in asked
    left_alone = asked.index("That can be done only where the state is unknown or failed or")
    assert asked.index("A-1") < asked.index("A-3")
    assert asked.index("A-2") < left_alone < asked.index("A-3")
    assert State.PENDING not in {states()[key] for key in chosen}


def test_where_nothing_can_be_resolved_there_is_no_form(admin_client: Client) -> None:
    """The page says so, and leads back."""
    asked = act(admin_client, EMAIL, "arrived", failed("A-1").pk)
    assert "None of the selected e-mails can be resolved in this way." in asked
    assert 'name="why"' not in asked
    assert f'href="{reverse(EMAILS)}">Back' in asked


def test_what_arrived_is_sent_with_who_said_so_and_an_entry_in_the_log(admin_client: Client) -> None:
    """Confirmed with a reason: the row, the resolution, and Django's log say the same."""
    emails = [unknown("A-1"), unknown("A-2")]
    said = confirm(admin_client, "arrived", " It is in the log. ", *(email.pk for email in emails))
    assert "2 e-mails: it arrived." in said
    assert set(states().values()) == {State.SENT}
    resolutions = set(Resolution.objects.values_list("email_id", "arrived", "who", "why"))
    assert resolutions == {(email.pk, True, "admin", "It is in the log.") for email in emails}
    entries = LogEntry.objects.values_list("object_id", "user__username", "change_message")
    assert set(entries) == {(str(email.pk), "admin", "It arrived: It is in the log.") for email in emails}
    assert LogEntry.objects.all()[0].get_change_message() == "It arrived: It is in the log."


def test_what_is_sent_again_is_pending_and_a_worker_hears_of_it(admin_client: Client, messages: list[Message]) -> None:
    """One e-mail, in the singular."""
    email = failed("A-1")
    messages.clear()
    assert "1 e-mail: send it again." in confirm(admin_client, "send_again", "Address corrected", email.pk)
    assert states() == {email.pk: State.PENDING}
    assert messages == [(task_names.SEND_EMAILS, ())]
    assert LogEntry.objects.get().change_message == "Send it again: Address corrected"


@pytest.mark.parametrize("why", ["", " \n "])
def test_without_a_reason_the_page_comes_again(why: str, admin_client: Client) -> None:
    """It says what is missing, where it is missing, and nothing is changed."""
    email = unknown("A-1")
    again = confirm(admin_client, "arrived", why, email.pk)
    assert "<title>Error: It arrived" in again
    assert "Nothing was changed: say why." in again
    assert 'aria-invalid="true"' in again
    assert 'aria-describedby="id_why_helptext id_why_error"' in again
    assert states() == {email.pk: State.UNKNOWN}
    assert not LogEntry.objects.exists()


def test_who_was_resolved_meanwhile_is_named_and_left_alone(admin_client: Client) -> None:
    """Also where the list's filter does not show it any more; the others are resolved."""
    first, second = unknown("A-1"), unknown("A-2")
    assert "It arrived: 2 e-mails" in act(admin_client, EMAIL, "arrived", first.pk, second.pk)
    resolving.resolve(first.pk, Act.RESEND, who="Ada", why="I was faster")
    said = confirm(admin_client, "arrived", "seen", first.pk, second.pk, 4_711, state__exact="unknown")
    assert "1 e-mail: it arrived." in said
    assert f"E-mail {first.pk} is pending: only unknown ones can have arrived." in said
    assert "There is no e-mail 4711." in said
    assert states() == {first.pk: State.PENDING, second.pk: State.SENT}
    assert LogEntry.objects.get().object_id == str(second.pk)


def test_what_has_become_unknown_since_it_was_looked_at_is_named_and_left_alone(admin_client: Client) -> None:
    """It was refused then. To send again what may have arrived is another decision."""
    email = failed("A-1")
    shown = act(admin_client, EMAIL, "send_again", email.pk)
    [seen] = re.findall(rf'name="seen-{email.pk}" value="(\w+)"', shown)
    Email.objects.update(
        state=State.UNKNOWN, phase=Phase.AFTER_DOT, claim_token=uuid4(), sending_since=Now(), ended_at=Now()
    )
    said = confirm(admin_client, "send_again", "It was refused", email.pk, seen={email.pk: seen})
    assert f"E-mail {email.pk} was sent or resolved meanwhile" in said
    assert states() == {email.pk: State.UNKNOWN}


def test_an_email_is_not_resolved_where_the_log_cannot_be_written(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both or neither."""

    def fail(*_arguments: Any) -> None:
        raise RuntimeError("no log")

    email = unknown("A-1")
    monkeypatch.setattr(admin.EmailAdmin, "log_change", fail)
    with pytest.raises(RuntimeError):
        confirm(admin_client, "arrived", "seen", email.pk)
    assert states() == {email.pk: State.UNKNOWN}
    assert not Resolution.objects.exists()


@pytest.mark.parametrize("action", ["arrived", "send_again"])
def test_who_lacks_the_permission_sees_no_action_and_cannot_post_it(action: str) -> None:
    """Seeing e-mails, and even changing orders, is not enough."""
    email = unknown("A-1")
    client = client_of("view_email", "change_email", "change_order", "view_order")
    assert f'value="{action}"' not in page(client, EMAILS)
    assert 'name="why"' not in act(client, EMAIL, action, email.pk)
    confirm(client, action, "I say so", email.pk)
    assert states() == {email.pk: State.UNKNOWN}
    assert not Resolution.objects.exists()


def test_the_permission_is_enough_to_find_and_resolve_emails() -> None:
    """Whoever has it, and nothing else, says what became of them, by his name."""
    email, client = unknown("A-1"), client_of("resolve_email")
    assert 'value="arrived"' in page(client, EMAILS)
    assert email.message_id.strip("<>") in page(client, f"{EMAIL}_change", email.pk)
    confirm(client, "arrived", "seen", email.pk)
    assert states() == {email.pk: State.SENT}
    assert Resolution.objects.get().who == "somebody"


def test_more_than_a_page_is_resolved_in_parts(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person looks at so many at once; the page says that there are more."""
    monkeypatch.setattr(admin, "MOST_RESOLVED", 2)
    ids = [unknown(f"A-{number}").pk for number in range(3)]
    asked = act(admin_client, EMAIL, "arrived", *ids)
    assert "At most 2 e-mails are resolved at once" in asked
    assert "It arrived: 2 e-mails" in asked
    assert "2 e-mails: it arrived" in confirm(admin_client, "arrived", "seen", *ids)


class Outline(HTMLParser):
    """What a screen reader finds its way by: labels, names of tables, headers of columns and rows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of this name."""
        return [attributes for found, attributes in self.found if found == tag]


def test_the_confirmation_can_be_used_with_keyboard_and_screen_reader(admin_client: Client) -> None:
    """Tables have captions and headers, the field a label and a description, and all controls are native."""
    whole = act(admin_client, EMAIL, "send_again", unknown("A-1").pk, shipped("A-2").pk)
    asked = Outline(whole.partition('id="content"')[2])  # without Django's own header and navigation
    assert len(asked.all("table")) == len(asked.all("caption")) == 2
    scopes = [header.get("scope") for header in asked.all("th")]
    assert scopes == 2 * (["col"] * 10 + ["row"])
    [field] = asked.all("textarea")
    assert (field["id"], field["aria-describedby"]) == ("id_why", "id_why_helptext")
    assert "required" in field
    assert {"for": "id_why"} in asked.all("label")
    assert [control["value"] for control in asked.all("input") if control.get("type") == "submit"] == [
        "Send it again: 1 e-mail"
    ]
    [back] = [link for link in asked.all("a") if link.get("class") == "closelink"]
    assert back["href"] == reverse(EMAILS)
    assert not [attributes for _, attributes in asked.found if "onclick" in attributes]
