"""The API's data about notifications and unread numbers."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from weir.api.schemas.values import (
    LARGEST_ID,
    LONGEST_REASON,
    Answer,
    Body,
    Count,
    Digits,
    Flag,
    Moment,
    Next,
    Text,
    Why,
)
from weir.notifications.models import MOST_OF_DEDUPE_KEY
from weir.notifications.user_keys import MOST_TEXT
from weir.workers.mail.addresses import LONGEST

MOST_USERS: Final = 10_000
MOST_IDS: Final = 1_000
MOST_OF_A_PAGE: Final = 100
UserKey = Annotated[str, Field(min_length=1, max_length=MOST_TEXT, description="the key of a user")]


def _is_safe(url: str) -> str:
    is_path = url.startswith("/") and not url.startswith(("//", "/\\"))
    if url and not is_path and not url.lower().startswith(("https://", "http://")):
        raise ValueError("write a path that begins with /, or a URL of http or https")
    if any(not character.isprintable() for character in url):
        raise ValueError("a URL has no control characters")
    return url


class NewNotification(Body):
    """The same notification for some users."""

    users: Annotated[
        list[Count | Text], Field(min_length=1, max_length=MOST_USERS, description="the keys of users, each once")
    ]
    kind: Annotated[Text, Field(min_length=1, max_length=100, description="for code, such as order.shipped")]
    title: Annotated[Text, Field(min_length=1, max_length=1_000)]
    body: Annotated[Text, Field(max_length=10_000)] = ""
    url: Annotated[Text, Field(max_length=2_000, description="where a click leads"), AfterValidator(_is_safe)] = ""
    dedupe_key: Annotated[
        Text | None,
        Field(min_length=1, max_length=MOST_OF_DEDUPE_KEY, description="users who have one with this key are left out"),
    ] = None
    expires_at: Moment | None = None


class Notified(Answer):
    """How many notifications were written."""

    written: int


class Notification(Answer):
    """One notification of a user."""

    id: int
    kind: str
    title: str
    body: str
    url: str
    created_at: datetime
    read_at: datetime | None
    expires_at: datetime | None


class NotificationPage(Answer):
    """Some notifications, the newest first."""

    notifications: list[Notification]
    next: Next


class NotificationQuery(Body):
    """Which notifications of a user, and from where on."""

    unread_only: Annotated[bool, Field(description="only those that are unread")] = False
    limit: Annotated[int, Digits, Field(ge=1, le=MOST_OF_A_PAGE)] = 20
    after: Annotated[str, Field(max_length=100, description="`next` of the page before")] = ""


class Ids(Body):
    """Notifications of the user. Ids of others are left alone."""

    ids: Annotated[list[Annotated[Count, Field(ge=1, le=LARGEST_ID)]], Field(min_length=1, max_length=MOST_IDS)]


class Marked(Answer):
    """How many were changed."""

    changed: int


class Unread(Answer):
    """How many notifications of a user are unread."""

    user: str
    unread: int


class Reconcile(Body):
    """Why a user's number is compared with the rows."""

    why: Why = ""


class Reconciled(Answer):
    """By how much the number was wrong; null where it was right."""

    wrong_by: int | None


class Forgetting(Body):
    """Why a user is forgotten, whose e-mails, too, and whether effects, too."""

    why: Annotated[str, Field(max_length=LONGEST_REASON, description="the reason, which is needed; it is kept")] = ""
    address: Annotated[
        str,
        Field(
            max_length=LONGEST,
            description="forget the e-mails to this address, too, which takes the scope weir_mail.resolve_email, too; "
            "no more is sent to it",
        ),
    ] = ""
    effects: Annotated[
        Flag,
        Field(description="forget the user's effects, too, which takes the scope weir_effects.resolve_effect, too"),
    ] = False


class ForgottenUser(Answer):
    """What became of e-mails to the address, and of effects.

    Notifications that are not deleted yet are deleted within seconds.
    """

    emails_forgotten: int
    emails_cancelled: Annotated[int, Field(description="how many of the forgotten ones were waiting")]
    emails_left: Annotated[
        int,
        Field(description="those that are being sent, or for which time was short: repeat the request until it is 0"),
    ]
    effects_forgotten: int
    effects_left: Annotated[
        int,
        Field(
            description="those that have not ended, each of which is forgotten after its end, or for which time was "
            "short: repeat the request then"
        ),
    ]
