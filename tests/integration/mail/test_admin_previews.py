"""The admin's page of what an e-mail says: exactly what is transmitted, and nothing of it can do anything."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

from tests.integration.fetches.test_admin import page
from tests.integration.mail.shipments import ship, unrendered
from tests.integration.mail.test_admin import client_of
from weir.workers.mail import kinds, outbox
from weir.workers.mail.kinds import Attachment, Content
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.phases import State

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

PREVIEW, FRAME = "admin:weir_mail_email_preview", "admin:weir_mail_email_preview_html"
EVIL = '<p>Hi <img src="cid:logo"><img src="cid:other"><script>alert(1)</script><form action="/admin/logout/"></p>'
PIXEL = b"\x89PNG fake"


@pytest.fixture
def email() -> Iterator[Email]:
    """Queue an e-mail whose HTML, files and headers want to do harm."""

    @kinds.register("evil")
    def evil() -> Content:
        return Content(
            subject="<script>subject</script>",
            text="<script>text</script>",
            html=EVIL,
            attachments=[
                Attachment("logo.png", PIXEL, "image/png", content_id="logo"),
                Attachment("<b>bill.html", b"<script>file</script>", "text/html"),
            ],
            headers={"X-Note": "<script>header</script>"},
        )

    yield outbox.send_once("evil", "1", to="kim@example.com")
    del kinds._kinds["evil"]


def test_what_is_transmitted_is_shown_as_text(email: Email, admin_client: Client) -> None:
    """Headers, text, and the names and sizes of files; nothing of it is markup of the page's."""
    shown = page(admin_client, PREVIEW, email.pk)
    for text in ("subject", "text", "header"):
        assert f"&lt;script&gt;{text}&lt;/script&gt;" in shown
        assert f"<script>{text}" not in shown
    assert "&lt;b&gt;bill.html" in shown
    assert "text/html</td>\n<td>21\N{NO-BREAK SPACE}bytes" in shown
    assert "logo.png" not in shown.partition("<caption>Files")[2]
    assert "<script>file" not in shown
    assert f'src="{reverse(FRAME, args=[email.pk])}" sandbox=""' in shown


def test_the_html_has_a_sandbox_of_its_own_and_loads_nothing(email: Email, admin_client: Client) -> None:
    """Also where somebody opens it outside of the frame: scripts do not run, and no request goes out."""
    response = admin_client.get(reverse(FRAME, args=[email.pk]))
    policy = {name: values for name, *values in map(str.split, response["Content-Security-Policy"].split(";"))}
    assert policy == {
        "default-src": ["'none'"],
        "img-src": ["data:"],
        "style-src": ["'unsafe-inline'"],
        "form-action": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'self'"],
        "sandbox": [],
    }
    assert response["X-Frame-Options"] == "SAMEORIGIN"
    assert response["X-Content-Type-Options"] == "nosniff"
    html = response.content.decode()
    assert 'src="data:image/png;base64,iVBORyBmYWtl"' in html.replace("\n", "")
    assert 'src="cid:other"' in html


def test_what_is_stored_is_shown_and_not_what_the_kind_says_today(admin_client: Client) -> None:
    """One that was not rendered yet is rendered for the page, which says so."""
    email = ship()
    changed = bytes(email.rendering.content).replace(b"Thank you", b"We curse you")
    Rendering.objects.filter(pk=email.pk).update(content=changed)
    shown = page(admin_client, PREVIEW, email.pk)
    assert "We curse you" in shown
    assert "not rendered yet" not in shown
    shown = page(admin_client, PREVIEW, unrendered(email).pk)
    assert "Thank you" in shown
    assert "not rendered yet" in shown
    assert not Rendering.objects.exists()


def test_what_is_gone_is_said_in_a_sentence(admin_client: Client) -> None:
    """It is not rendered anew: it might say something else than what was sent."""
    email = unrendered(ship())
    Email.objects.update(state=State.CANCELLED)
    assert f"Its SHA-256 is {email.content_hash}." in page(admin_client, PREVIEW, email.pk)
    assert admin_client.get(reverse(FRAME, args=[email.pk])).status_code == 404
    assert admin_client.get(reverse(PREVIEW, args=[email.pk + 1])).status_code == 404


@pytest.mark.parametrize("name", [PREVIEW, FRAME])
def test_who_may_only_resolve_e_mails_does_not_read_them(name: str, email: Email) -> None:
    """The permission to view them is another one; without a login there is nothing to see."""
    url, client = reverse(name, args=[email.pk]), client_of("resolve_email")
    assert client.get(url).status_code == 403
    assert Client().get(url).status_code == 302
    assert "As it is transmitted" not in page(client, "admin:weir_mail_email_change", email.pk)


def test_who_may_view_e_mails_reads_them(email: Email) -> None:
    """And finds the page from the e-mail's own."""
    client = client_of("view_email")
    assert reverse(PREVIEW, args=[email.pk]) in page(client, "admin:weir_mail_email_change", email.pk)
    assert "kim@example.com" in page(client, PREVIEW, email.pk)
