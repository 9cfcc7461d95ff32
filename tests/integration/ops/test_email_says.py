"""What an e-mail says, on its page: to whom it is shown, and in what frame, and what is said where there is nothing."""

import base64
import re

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.integration.ops.test_acting import signed_in
from weir.ops import pages, snapshots
from weir.ops.views import previews
from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content, EmailAttachment
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.outbox import send_once
from weir.workers.mail.reports import previews as reports

pytestmark = pytest.mark.django_db(transaction=True)

KIND = "test.hostile"
KIM = "kim@example.com"
READS, ACTS = "weir_mail.view_email", "weir_mail.resolve_email"
LIVE = {"X-Weir-Live": "1"}
HTML = (
    "<!doctype html><meta http-equiv=refresh content='0;url=https://evil.example/'><LINK rel=preconnect "
    "href=https://evil.example><script>alert(1)</script><iFrame src=https://evil.example></iframe>"
    "<style>p { color: red }</style><p>Hello <b>Kim</b></p><form action=https://evil.example><button>Go</button></form>"
)
TEXT = "Hello\x07 Kim <b>\u202e"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"x" * 300


@pytest.fixture(autouse=True)
def _hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind whose HTML is as hostile as a customer's data can make it."""

    def content(pictures: int = 1, has_html: bool = True) -> Content:
        logo = EmailAttachment("logo.png", PICTURE, "image/png", content_id="logo")
        bill = EmailAttachment("bill <1>.pdf", b"%PDF", "application/pdf")
        html = HTML + "<img src=cid:logo>" * pictures if has_html else ""
        return Content(subject="Your bill <i>", text=TEXT, html=html, attachments=[logo, bill])

    monkeypatch.setitem(kinds._kinds, KIND, content)


def queued(**context: object) -> Email:
    """Queue an e-mail, which renders it."""
    return send_once(KIND, key="1", to=KIM, context=context)


def sent() -> Email:
    """Return an e-mail that was sent."""
    queued()
    Email.objects.update(state="sent", sent_at=Now(), ended_at=Now())
    return Email.objects.get()


def test_an_email_of_text_alone_has_no_frame() -> None:
    """And no page without one may have any."""
    email = queued(has_html=False)
    browser = signed_in(READS)
    page, frame = browser.get(f"/emails/{email.pk}/"), browser.get(f"/emails/{email.pk}/html/")
    assert ("Hello" in page.text, "HTML" in page.text) == (True, False)
    assert page["Content-Security-Policy"] == pages.CONTENT_SECURITY_POLICY
    assert (frame.status_code, frame.text) == (404, "This e-mail has no HTML.")


def not_rendered(state: str) -> Email:
    """Return an e-mail as it is before it is rendered, such as while its app's database is away."""
    queued()
    Rendering.objects.all().delete()
    Email.objects.update(state=state, renderings=0, subject="", content_hash="", content_size=0)
    return Email.objects.get()


def test_the_page_shows_subject_text_files_and_a_frame() -> None:
    """Text is text; the frame may do nothing, and has a title. Only such a page may have a frame."""
    email = sent()
    answer = signed_in(READS).get(f"/emails/{email.pk}/")
    assert "<dd>Your bill &lt;i&gt;</dd>" in answer.text
    assert "Hello\N{SYMBOL FOR BELL} Kim &lt;b&gt;\\u{202e}" in answer.text
    assert "bill &lt;1&gt;.pdf, application/pdf, 4\xa0bytes" in answer.text
    [frame] = re.findall("<iframe[^>]*>", answer.text)
    assert f'sandbox loading="lazy" src="/emails/{email.pk}/html/" title="The HTML of e-mail {email.pk}"' in frame
    assert answer["Content-Security-Policy"] == f"{pages.CONTENT_SECURITY_POLICY}; frame-src 'self'"
    assert "alert(1)" not in answer.text


def test_the_html_may_do_nothing_in_a_browser() -> None:
    """No script, no request, no form, no part in this site; what no policy forbids is no element any more."""
    answer = signed_in(READS).get(f"/emails/{sent().pk}/html/")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'self'; sandbox"
    )
    expected = {
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-DNS-Prefetch-Control": "off",
        "X-Frame-Options": "SAMEORIGIN",
    }
    assert {name: answer[name] for name in expected} == expected
    assert not answer.cookies
    assert "<p>Hello <b>Kim</b></p>" in answer.text
    assert f"<img src=data:image/png;base64,{base64.b64encode(PICTURE).decode()}>" in answer.text
    assert re.findall("(?i)<(?:link|meta|iframe)", answer.text) == []
    assert "<basefont rel=preconnect" in answer.text


@pytest.mark.parametrize("goes", ["document", "object", "empty"])
def test_html_is_shown_in_the_frame_only(goes: str) -> None:
    """Alone in a tab, its links would lead away."""
    email = sent()
    browser = signed_in(READS)
    answer = browser.get(f"/emails/{email.pk}/html/", headers={"Sec-Fetch-Dest": goes})
    assert (answer.status_code, answer["Location"]) == (302, f"/emails/{email.pk}/")
    assert browser.get(f"/emails/{email.pk}/html/", headers={"Sec-Fetch-Dest": "iframe"}).status_code == 200


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_html_is_only_shown(method: str) -> None:
    answer = getattr(signed_in(READS), method)("/emails/1/html/")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")


def test_without_the_permission_nothing_of_it_is_shown() -> None:
    """Neither on the page, nor at the URL of the frame, nor again from memory after another visitor has seen it."""
    email = sent()
    reader, other = signed_in(READS), signed_in(ACTS, name="kim")
    assert "Hello" in reader.get(f"/emails/{email.pk}/").text
    assert "Hello" not in reader.get(f"/emails/{email.pk}/", headers=LIVE).text
    page = other.get(f"/emails/{email.pk}/")
    assert "<code>weir_mail.view_email</code>" in page.text
    assert ("Hello" in page.text, "<iframe" in page.text) == (False, False)
    assert page["Content-Security-Policy"] == pages.CONTENT_SECURITY_POLICY
    answer = other.get(f"/emails/{email.pk}/html/")
    assert (answer.status_code, "Hello" in answer.text) == (403, False)


def test_a_visitor_of_the_frame_is_asked_to_sign_in() -> None:
    path = f"/emails/{sent().pk}/html/"
    assert Client().get(path)["Location"] == f"/sign-in/?next={path}"


def test_reading_emails_takes_the_permission_of_the_pages_too() -> None:
    browser = signed_in(READS, pages=False)
    assert browser.get(f"/emails/{sent().pk}/html/").status_code == 403


def assert_says(email: Email, sentence: str, status: int = 404) -> None:
    """Assert that the page, and the URL of the frame, say why there is nothing to show."""
    browser = signed_in(READS)
    page, frame = browser.get(f"/emails/{email.pk}/"), browser.get(f"/emails/{email.pk}/html/")
    assert (page.status_code, sentence in page.text, "<iframe" in page.text) == (200, True, False)
    assert (frame.status_code, frame["Content-Type"]) == (status, "text/plain; charset=utf-8")


def test_purged_content_is_said_to_be_gone() -> None:
    email = sent()
    Rendering.objects.all().delete()
    assert_says(email, "was deleted after WEIR_MAIL_CONTENT_RETENTION, or when its recipient was forgotten.")


def test_what_a_forgotten_recipient_was_sent_is_gone() -> None:
    email = sent()
    call_command("emails", "forget", KIM, "--why", "They asked.")
    assert_says(email, "was deleted after WEIR_MAIL_CONTENT_RETENTION, or when its recipient was forgotten.")


def test_nothing_is_rendered_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls an app's code, which has no time limit."""
    email = not_rendered("pending")
    monkeypatch.setattr("weir.workers.mail.rendering.render", lambda _email: pytest.fail("rendered"))
    assert_says(email, f"is not rendered yet: <code>manage.py emails preview {email.pk}</code>")


def test_one_that_ended_before_it_was_rendered_says_so() -> None:
    email = not_rendered("cancelled")
    assert_says(email, f"E-mail {email.pk} was never rendered.")


def test_a_large_email_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a byte of it leaves PostgreSQL."""
    monkeypatch.setattr(previews, "MOST_BYTES", 1_000)
    email = sent()
    with CaptureQueriesContext(connection) as asked:
        assert_says(email, "a page shows no more than 1,000")
    assert not [query for query in asked.captured_queries if 'SELECT "weir_mail_rendering"."email_id"' in query["sql"]]


def test_a_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "LONGEST_TEXT", 5)
    text = signed_in(READS).get(f"/emails/{sent().pk}/").text
    assert (">Hello</pre>" in text, "It is longer than this" in text) == (True, True)


def test_what_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of PostgreSQL's time, as on any page."""
    email = sent()
    browser = signed_in(READS)
    browser.get(f"/emails/{email.pk}/")  # all but the own part is remembered
    monkeypatch.setattr(snapshots, "STATEMENT_S", 0.001)
    monkeypatch.setattr(reports, "stored", _sleep)
    page, frame = browser.get(f"/emails/{email.pk}/"), browser.get(f"/emails/{email.pk}/html/")
    assert "PostgreSQL needs longer than 0.001 s for this" in page.text
    assert frame.status_code == 503


def _sleep(*_arguments: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1)")


def test_pictures_that_are_shown_often_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTML of a few kilobytes cannot name one picture until memory ends."""
    monkeypatch.setattr(reports, "MOST_PICTURES", 1_000)
    html = reports.of(queued(pictures=9)).html
    assert (html.count("data:image/png"), html.count("cid:logo")) == (2, 7)
