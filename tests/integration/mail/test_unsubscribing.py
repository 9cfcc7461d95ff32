"""Who unsubscribes by one click gets no more e-mails of that kind, and all others (RFC 8058)."""

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from pytest_django import Settings

from tests.cases import case, for_each
from weir.testing import sent_emails
from weir.workers.mail import kinds, outbox, suppression
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email, Rendering, Unsubscription
from weir.workers.mail.writing import unsubscribing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("messages")]

ORIGIN, KIM = "https://shop.example", "Kim@customers.example"
NEWS, RESET = "newsletter.weekly", "password.reset"
CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture(autouse=True)
def _kinds(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = ORIGIN
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))

    @kinds.register(NEWS)
    def news() -> Content:
        return Content(subject="News", text=unsubscribing.url(NEWS, KIM), unsubscribe=True)

    @kinds.register(RESET)
    def reset() -> Content:
        return Content(subject="Reset", text="Here it is.")


@pytest.fixture
def client() -> Client:
    return Client(enforce_csrf_checks=True)


def queue(kind: str, key: str, to: str = KIM) -> Email:
    return outbox.send_once(kind, key, to=to)


def link() -> str:
    """Return the path of the link that an e-mail of the kind NEWS has, in the header as in the text."""
    head, _, text = bytes(Rendering.objects.get(email=queue(NEWS, "1")).content).decode().partition("\r\n\r\n")
    lines = re.sub(r"\r\n[ \t]+", "", head).split("\r\n")
    (url,) = [line.partition(": ")[2].strip(" <>") for line in lines if line.startswith("List-Unsubscribe:")]
    assert "List-Unsubscribe-Post: List-Unsubscribe=One-Click" in lines
    assert text.replace("=\r\n", "").replace("=3D", "=").strip() == url
    assert "customers" not in url  # a log may have it
    return url.removeprefix(ORIGIN)


def test_one_click_ends_that_kind_and_no_other(
    client: Client, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    """However often it comes; it needs no cookie."""
    path = link()
    for _ in range(2):
        assert b"You have unsubscribed" in client.post(path, CLICK).content
    with sent_emails() as sent, django_capture_on_commit_callbacks(execute=True):
        queue(NEWS, "2"), queue(RESET, "1"), queue(NEWS, "3", to="robin@customers.example")
    states = {email.key: email.state for email in Email.objects.filter(kind=NEWS)}
    assert states == {"1": "suppressed", "2": "suppressed", "3": "sent"}
    assert [email.subject for email in sent] == ["Reset", "News"]
    assert "The recipient unsubscribed from newsletter.weekly on 20" in Email.objects.get(kind=NEWS, key="2").last_reply
    assert suppression.reasons([KIM]) == {}


def test_a_get_shows_a_button_that_does_it(client: Client) -> None:
    """Programs that look for dangerous links send a GET."""
    path = link()
    page = client.get(path)
    assert (page.status_code, page.headers["Referrer-Policy"], page.headers["Cache-Control"]) == (
        200,
        "no-referrer",
        "no-store",
    )
    assert not Unsubscription.objects.exists()
    field = re.search(rb'<input type="hidden" name="([^"]+)" value="([^"]+)">', page.content)
    assert field
    assert client.post(path, {field[1].decode(): field[2].decode()}).status_code == 200
    assert Unsubscription.objects.count() == 1


@for_each("kind", ["", "text/plain", "application/x-www-form-urlencoded; charset=ISO-8859-1"])
def test_a_click_counts_whatever_the_mail_program_says_of_its_body(client: Client, kind: str) -> None:
    for body, status in ((b"List-Unsubscribe=Two-Click", 400), (b"List-Unsubscribe=One-Click\r\n", 200)):
        assert client.generic("POST", link(), body, content_type=kind).status_code == status
    assert Unsubscription.objects.count() == 1


@for_each(
    ("change", "body", "status"),
    [
        (lambda path: path[:-3] + "xx/", CLICK, 404),
        (lambda path: path.replace("weekly", "daily"), CLICK, 404),
        (lambda _path: f"/mail/unsubscribe/{'a:' * 200}/", CLICK, 404),
        (lambda _path: "/mail/unsubscribe/\ud83d\ude00:x/", CLICK, 404),
        (lambda path: path, {}, 400),
        (lambda path: path, {"List-Unsubscribe": "Two-Click"}, 400),
        (lambda path: path, {**CLICK, "more": "x" * 5_000}, 400),
    ],
)
def test_what_is_no_click_on_our_link_changes_nothing(change: Any, body: dict[str, str], status: int) -> None:
    """A link cannot be guessed from another one."""
    path = change(link()).encode("utf-16", "surrogatepass").decode("utf-16")
    assert Client().post(path, body).status_code == status
    assert not Unsubscription.objects.exists()


def test_a_link_counts_as_long_as_its_key_is_known(client: Client, settings: Settings) -> None:
    """An e-mail may be read years later."""
    path, settings.SECRET_KEY_FALLBACKS = link(), [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"  # noqa: S105  of a test
    assert client.get(path).status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert client.get(path).status_code == 404


def test_an_operator_undoes_it_and_sees_it(client: Client, admin_client: Client) -> None:
    """By its kind: the suppression list is another list."""
    client.post(link(), CLICK)
    email = Email.objects.get()
    assert b"from newsletter.weekly" in admin_client.get(f"/emails/{email.pk}/").content
    with pytest.raises(CommandError, match="is not on the suppression list"):
        call_command("emails", "unsuppress", KIM, "--why", "She asked", "--who", "Ada")
    output = StringIO()
    unsuppress = ("emails", "unsuppress", KIM.lower(), "--kind", NEWS, "--why", "She asked", "--who", "Ada")
    call_command(*unsuppress, stdout=output)
    assert output.getvalue() == f"{KIM.lower()} is written to again, with e-mails of the kind {NEWS}.\n"
    assert not Unsubscription.objects.exists()
    with pytest.raises(CommandError, match=f"has not unsubscribed from {NEWS}"):
        call_command(*unsuppress)


def test_a_kind_that_cannot_make_a_link_says_why(settings: Settings) -> None:
    """When the e-mail is queued, not when somebody clicks."""
    kinds.register("both")(
        lambda: Content(subject="s", text="t", unsubscribe=True, unsubscribe_url="https://a.example/")
    )
    cases: list[tuple[str, Callable[[], object], str]] = [
        ("both", lambda: None, "not both"),
        (NEWS, lambda: setattr(settings, "ROOT_URLCONF", "weir.signatures.urls"), "no URL includes"),
        (NEWS, lambda: setattr(settings, "WEIR_MAIL_UNSUBSCRIBE_ORIGIN", ""), "is not set"),
    ]
    for name, change, words in cases:
        change()
        with case(words), pytest.raises(CannotBeWritten, match=words):
            queue(name, words)


def test_a_link_is_of_a_kind_that_there_is() -> None:
    """Who clicked one with a misspelt kind would go on getting the e-mails."""
    with pytest.raises(kinds.UnknownKind, match=r"'newsletter\.weakly'\. Did you mean newsletter\.weekly\?"):
        unsubscribing.url("newsletter.weakly", KIM)
