"""The admin pages of paused kinds, the suppression list, held relays and acts."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from tests.integration.fetches.test_admin import act, page
from tests.integration.mail.test_admin import client_of
from weir.workers.audit.models import Entry
from weir.workers.mail import suppression
from weir.workers.mail.maintenance import operators
from weir.workers.mail.maintenance.forgetting import forget_recipient
from weir.workers.mail.models import MailAct, PausedKind, RelayHold, Suppression
from weir.workers.orders import shipping
from weir.workers.orders.models import SHIPPED, Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

KINDS, LIST = "admin:weir_mail_pausedkind", "admin:weir_mail_suppression"
ADDED = {KINDS: {"kind": SHIPPED, "why": "wrong text"}, LIST: {"address": "Kim@EXAMPLE.com", "why": "wrong text"}}


def acts() -> list[tuple[str, str, str]]:
    return list(MailAct.objects.order_by("pk").values_list("what", "who", "why"))


def confirm(client: Client, model: str, action: str, pk: object, why: str) -> str:
    """Return the page that follows a confirmed action."""
    values = {"action": action, "_selected_action": [pk], "confirmed": "yes", "why": why}
    return client.post(reverse(f"{model}_changelist"), values, follow=True).content.decode()


def test_a_kind_is_paused_and_resumed_with_reasons(admin_client: Client) -> None:
    """The form offers the kinds that there are; both acts are written down."""
    assert f'value="{SHIPPED}"' in page(admin_client, f"{KINDS}_add")
    assert admin_client.post(reverse(f"{KINDS}_add"), ADDED[KINDS]).status_code == 302
    assert PausedKind.objects.values_list("kind", "who", "why").get() == (SHIPPED, "admin", "wrong text")
    assert "wrong text" in page(admin_client, f"{KINDS}_changelist")
    assert "paused by admin" in act(admin_client, KINDS, "resume", SHIPPED)
    assert PausedKind.objects.exists()
    assert "Nothing was changed" in confirm(admin_client, KINDS, "resume", SHIPPED, " ")
    assert "Resume: 1 row." in confirm(admin_client, KINDS, "resume", SHIPPED, "right now")
    assert not PausedKind.objects.exists()
    assert acts() == [("pause", "admin", "wrong text"), ("resume", "admin", "right now")]


def test_a_reason_that_names_the_address_is_kept_without_it(admin_client: Client) -> None:
    """The audit trail and the acts are kept when it is forgotten."""
    admin_client.post(reverse(f"{LIST}_add"), ADDED[LIST])
    confirm(admin_client, LIST, "release", Suppression.objects.get().pk, "Kim@Example.com asked for it")
    assert acts()[-1] == ("release", "admin", "<recipient> asked for it")
    assert Entry.objects.latest("pk").why == "<recipient> asked for it"


def test_an_address_is_put_on_the_list_and_taken_off_with_reasons(admin_client: Client) -> None:
    """In the form in which e-mails have it; it is found by the whole address, also when it was forgotten."""
    assert admin_client.post(reverse(f"{LIST}_add"), ADDED[LIST]).status_code == 302
    entry = Suppression.objects.get()
    assert (entry.address, entry.why) == ("Kim@example.com", "wrong text")
    assert LogEntry.objects.get().object_id == str(entry.pk)
    again = admin_client.post(reverse(f"{LIST}_add"), ADDED[LIST]).content.decode()
    assert "It is on the list." in again
    assert (
        "is no e-mail address"
        in admin_client.post(reverse(f"{LIST}_add"), {"address": "x", "why": "y"}).content.decode()
    )
    Suppression.objects.update(address="")
    assert entry.address_hash in page(admin_client, f"{LIST}_changelist", q="KIM@example.com")
    assert entry.address_hash not in page(admin_client, f"{LIST}_changelist", q="kim@")
    assert "Take off the list: 1 row." in confirm(admin_client, LIST, "release", entry.pk, "right now")
    assert not Suppression.objects.exists()
    assert acts() == [("suppress", "admin", "wrong text"), ("release", "admin", "right now")]


@pytest.mark.parametrize(("model", "action"), [(KINDS, "resume"), (LIST, "release")])
def test_who_may_only_look_changes_nothing(model: str, action: str) -> None:
    """Adding and the action need the permission to resolve e-mails; nothing is edited or deleted by anybody."""
    operators.pause(SHIPPED, "Ada", "x")
    operators.suppress("kim@example.com", "Ada", "x")
    pk = SHIPPED if model == KINDS else Suppression.objects.get().pk
    client = client_of("view_pausedkind", "view_suppression", "add_pausedkind", "delete_suppression", "view_email")
    assert f'value="{action}"' not in page(client, f"{model}_changelist")
    assert client.post(reverse(f"{model}_add"), ADDED[model]).status_code == 403
    confirm(client, model, action, pk, "I say so")
    for view in ("change", "delete"):
        assert client.post(reverse(f"{model}_{view}", args=[pk]), {"post": "yes"}).status_code == 403
    assert (PausedKind.objects.count(), Suppression.objects.count(), len(acts())) == (1, 1, 2)


@pytest.mark.parametrize("model", [KINDS, LIST])
def test_the_permission_to_resolve_e_mails_is_enough(model: str) -> None:
    client = client_of("resolve_email")
    assert client.post(reverse(f"{model}_add"), ADDED[model]).status_code == 302
    assert "wrong text" in page(client, f"{model}_changelist")
    assert [who for _, who, _ in acts()] == ["somebody"]


def test_an_address_is_found_as_people_write_it(admin_client: Client) -> None:
    """It is on the list with its domain in ASCII."""
    operators.suppress("kim@xn--mller-kva.example", "Ada", "She asked")
    assert "She asked" in page(admin_client, f"{LIST}_changelist", q=" Kim@müller.example ")


def test_what_was_done_and_which_relays_are_held_is_only_looked_at(admin_client: Client) -> None:
    """The acts about an address are found by its hash."""
    operators.suppress("kim@example.com", "Ada", "She asked")
    operators.pause(SHIPPED, "Bob", "wrong text")
    RelayHold.objects.create(relay="mx.example:25", reason="It refuses us: 550")
    assert "It refuses us: 550" in page(admin_client, "admin:weir_mail_relayhold_changelist")
    found = page(admin_client, "admin:weir_mail_mailact_changelist", q=suppression.address_hash("kim@example.com"))
    assert "She asked" in found
    assert "wrong text" not in found
    for model in ("mailact", "relayhold"):
        assert admin_client.get(reverse(f"admin:weir_mail_{model}_add")).status_code == 403


def test_what_operators_did_does_not_keep_an_address_that_is_forgotten(admin_client: Client) -> None:
    """Neither Weir's acts nor Django's log: both stay."""
    address, why = "Kim.Personal@customers.example", "kim.personal@customers.example wrote"
    order = Order.objects.create(number="T-1", customer_email=address)
    assert shipping.ship(order.pk)
    confirm(admin_client, "admin:weir_mail_email", "cancel", order.shipped_email.pk, why)
    admin_client.post(reverse(f"{LIST}_add"), {"address": address, "why": why})
    operators.release(address, "Ada", why)
    forget_recipient(address, "Ada", why)
    texts = [*LogEntry.objects.values_list("object_repr", "change_message"), *MailAct.objects.values_list("why")]
    assert len(texts) == 5
    assert "personal" not in str(texts).lower()
