"""What providers and recipients send reaches a real web process: bodies without a login, whole and in chunks."""

import re
from datetime import UTC, datetime
from urllib.parse import urlencode

from pytest_django import Settings

from tests import provider_requests
from tests.acceptance.front.clients import answer, connected, head, status
from tests.acceptance.front.conftest import StartWeb
from weir.workers.mail.models import Email, Unsubscription
from weir.workers.mail.writing import unsubscribing

KIM, ID = "kim@customers.example", "9f0c1d2e-3b4a-4c5d-8e6f-0123456789ab"


def sent(url: str, path: str, headers: dict[str, str], *pieces: bytes) -> bytes:
    """Send a request whose body comes in chunks if it has several pieces; return the answer."""
    length = "Transfer-Encoding: chunked" if len(pieces) > 1 else f"Content-Length: {len(pieces[0])}"
    with connected(url) as to:
        named = [f"{name}: {value}" for name, value in headers.items()]
        to.sendall(head(f"POST {path}", "Connection: close", length, *named))
        chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        to.sendall(b"".join(chunks) + b"0\r\n\r\n" if len(pieces) > 1 else pieces[0])
        return answer(to)


def test_a_provider_reports_and_a_recipient_unsubscribes(start_fresh: StartWeb, settings: Settings) -> None:
    """Neither has a session, or a token against forgery."""
    settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN = "https://shop.example"
    secret = {"WEIR_SECRET_RESEND_WEBHOOK": provider_requests.WHSEC}
    web = start_fresh(DJANGO_SECRET_KEY=settings.SECRET_KEY, **secret)
    email = Email.objects.create(
        kind="order.shipped",
        key="1",
        recipient=KIM,
        state="sent",
        sent_at=datetime.now(UTC),
        provider_id=ID,
        message_id="<1@x>",
    )
    request = provider_requests.event("resend", "complained", name=ID, to=KIM, at=datetime.now(UTC))
    headers = {**request.headers, "Content-Type": "application/json"}
    assert status(sent(web.url, "/mail/webhooks/resend/", headers, request.body + b" ")) == 401
    assert status(sent(web.url, "/mail/webhooks/resend/", headers, request.body[:100], request.body[100:])) == 200
    email.refresh_from_db()
    assert email.complained_at is not None
    path = unsubscribing.url("order.shipped", KIM).removeprefix("https://shop.example")
    body = urlencode({"List-Unsubscribe": "One-Click"}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert status(sent(web.url, path, form, body[:9], body[9:])) == 200
    assert Unsubscription.objects.filter(kind="order.shipped").count() == 1
    assert not re.search(KIM, web.logged())
