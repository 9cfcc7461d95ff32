"""What tests of digests share: kinds of notification, users' addresses, a relay of the test's own, and the counts."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import cast

import pytest
from django.db.models.functions import Now

from tests.integration.mail.shipments import ConnectedTransport, use
from tests.integration.notifications.unread import kept, unread_rows
from weir.digests import gathering
from weir.notifications import inbox
from weir.notifications.channels import kinds
from weir.notifications.channels.kinds import NotificationKind
from weir.notifications.inbox import read_marks
from weir.notifications.models import Channel, Notification
from weir.notifications.user_keys import UserKey
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email, Resolution
from weir.workers.mail.sending import runner
from weir.workers.mail.transports.base import Accepted

MARKS = [
    pytest.mark.django_db(
        transaction=True, available_apps=["weir.ratelimit", "weir.notifications", "weir.workers.mail", "weir.digests"]
    ),
    pytest.mark.usefixtures("valkey", "messages", "kinds_of_test"),
]
KIM, ROBIN = 7, 8
NEWS, ALARM, CHAT = "news", "alarm", "chat"
AFTER = timedelta(hours=4)
OWN = {NEWS: Channel.DIGEST, ALARM: Channel.EMAIL, CHAT: Channel.PAGE}


def address(user: UserKey, word: str = "plain") -> str:
    return f"{word}.{user}@customers.example"


@pytest.fixture
def kinds_of_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kinds, one for each channel, and the users' addresses."""
    registered = {name: NotificationKind(channel=channel, digest_after=AFTER) for name, channel in OWN.items()}
    monkeypatch.setattr(kinds, "_kinds", registered)
    monkeypatch.setattr(kinds, "_addresses", [lambda users: {user: address(user) for user in users}])


class Relay(ConnectedTransport):
    """Accepts e-mails, and keeps them; what is in `at_begin` happens before the next one begins, `after` after that."""

    def __init__(self) -> None:
        self.came: list[EmailMessage] = []
        self.at_begin: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        while self.at_begin:
            self.at_begin.pop()()
        begin()
        while self.after:
            self.after.pop()()
        self.came.append(message_from_bytes(message.content, policy=SMTP))
        return Accepted("250 OK")


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Relay:
    made = Relay()
    use(monkeypatch, lambda: made)
    return made


def tell(title: str, user: UserKey = KIM, kind: str = NEWS) -> Notification:
    return inbox.notify(user, kind, title)


def due() -> None:
    """Make all that waits due: what is to be told, and e-mails' next attempts."""
    Notification.objects.filter(digest_due_at__isnull=False).order_by().update(digest_due_at=Now())
    Email.objects.filter(state="pending").update(next_attempt_at=Now())


def send() -> None:
    """Queue and send the digests that are due."""
    due()
    gathering.gather_due(0.0)
    due()
    runner.send_due()


def lines(email: EmailMessage) -> list[str]:
    """Return the titles that a digest lists; their number is the subject's."""
    text = cast("EmailMessage", email.get_body(("plain",))).get_content()
    titles = [line.removeprefix("- ").strip() for line in text.splitlines() if line.startswith("- ")]
    assert str(email["Subject"]).startswith(f"{len(titles)} unread notification")
    return titles


def told(relay: Relay) -> Counter[str]:
    """Return how often each title was told by the digests that the relay has accepted."""
    return Counter(title for email in relay.came for title in lines(email))


def forget_the_case_before(relay: Relay | None = None) -> None:
    """Delete what another case of the test has left."""
    Resolution.objects.all().delete()
    Email.objects.all().delete()
    Notification.objects.all().delete()
    if relay:
        relay.came.clear()


def unread(user: UserKey = KIM) -> set[str]:
    """Return the titles of the user's unread notifications; all unread numbers are those of the rows."""
    read_marks.settle()
    rows = unread_rows(KIM, ROBIN)
    assert kept(rows) == rows
    assert inbox.unread_counts(rows) == rows
    return set(Notification.objects.unread().filter(user_id=user).values_list("title", flat=True))


def the_email(state: str) -> Email:
    """Return the only e-mail, which is in this state."""
    email = Email.objects.get()
    assert email.state == state, email.last_reply
    return email
