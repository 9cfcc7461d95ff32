"""The API's data about e-mails."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from weir.api.schemas.values import Answer, Body, Count, Cursor, Moment, Next, Text, Why
from weir.workers.ledger.queueing import LARGEST_CONTEXT, LONGEST_KEY, PRIORITIES
from weir.workers.mail import addresses
from weir.workers.mail.kinds import LONGEST_NAME

LONGEST_TO: Final = addresses.LONGEST_NAME + len(" <>") + addresses.LONGEST

EmailState = Literal[
    "pending", "claimed", "sending", "sent", "failed", "unknown", "bounced", "cancelled", "suppressed", "expired"
]
Kind = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, description="such as order.shipped")]


class EmailQuery(Body):
    """Which e-mails are meant, and from where on."""

    state: Literal["", EmailState] = ""
    kind: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    to: Annotated[str, Field(max_length=320, description="how the recipient's address begins")] = ""
    after: Cursor = ""


class Email(Answer):
    """One e-mail."""

    id: int
    kind: str
    key: str
    recipient: str
    recipient_name: str
    subject: str
    state: EmailState
    phase: str
    attempts: int
    last_reply: str
    message_id: str
    relay: str
    provider_id: str
    claimed_by: str
    created_at: datetime
    next_attempt_at: datetime
    expires_at: datetime | None
    sending_since: datetime | None
    sent_at: datetime | None
    delivered_at: Annotated[datetime | None, Field(description="when a report says that it was delivered")]
    complained_at: Annotated[datetime | None, Field(description="when its recipient complained of it")]
    ended_at: datetime | None
    content_hash: str
    content_size: int
    correlation_id: str


class NewEmail(Body):
    """An e-mail to one recipient."""

    kind: Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME, description="such as order.shipped")]
    key: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=LONGEST_KEY,
            description="what it is about: one e-mail of a kind for each key, of all programs and web code",
        ),
    ]
    to: Annotated[Text, Field(min_length=1, max_length=LONGEST_TO, description="an address, or `Name <address>`")]
    context: Annotated[
        dict[str, Any],
        Field(description=f"the arguments of the kind, by name; at most {LARGEST_CONTEXT // 1024} KiB of JSON"),
    ] = {}
    language: Annotated[
        Text | None, Field(min_length=1, max_length=20, description="one of LANGUAGES; null: LANGUAGE_CODE")
    ] = None
    not_before: Moment | None = None
    expires_at: Annotated[Moment | None, Field(description="it is not sent then or later; null: as its kind says")] = (
        None
    )
    priority: Annotated[Count, Field(ge=PRIORITIES[0], le=PRIORITIES[-1], description="higher ones are sent first")] = 0


class QueuedEmail(Answer):
    """The e-mail of this kind and key."""

    id: int
    kind: str
    key: str
    state: EmailState
    created_at: datetime


class EmailPage(Answer):
    """Some e-mails of a list."""

    emails: list[Email]
    next: Next
    looked_at: int | None


class EmailBlocker(Answer):
    """One thing that is in an e-mail's way."""

    kind: str
    text: str
    until: datetime | None


class Resolution(Answer):
    """What somebody, or a log, said about an e-mail."""

    id: int
    resolved_at: datetime
    act: str
    who: str
    why: str
    state: str
    phase: str
    last_reply: str


class EmailDetails(Email):
    """All about one e-mail, but for what is transmitted."""

    goes_by: Annotated[list[str], Field(description="the relays that it would go by, the first one first")]
    blockers: list[EmailBlocker]
    resolutions: list[Resolution]


class NewResolution(Body):
    """What became of an e-mail, or what is to become of it."""

    act: Annotated[
        Literal["arrived", "resend", "give up", "cancel", "correct"],
        Field(
            description="it arrived; send it again, at the risk that it arrives twice; leave it unsent; do not send "
            "one that waits; render one anew that was not accepted. What had ended does not expire any more"
        ),
    ]
    why: Why
    to: Annotated[
        Text | None,
        Field(
            max_length=320,
            description="with `correct`: another recipient, which takes the scope weir_mail.redirect_email, too",
        ),
    ] = None


class Resolved(Answer):
    """What the e-mail is now."""

    email: int
    state: EmailState


class MailReason(Body):
    """Why a kind is paused or resumed: it is kept."""

    why: Why


class MailReasonQuery(Body):
    """The reason of a request that has no body."""

    why: Annotated[str, Field(max_length=2_000, description="the reason, which is needed; it is kept")] = ""


class MailKind(Answer):
    """A kind of e-mail, with numbers up to 10,000, and how many were sent in the last hour and day.

    `etag` is for If-Match, where the kind is paused or resumed.
    """

    kind: str
    is_registered: bool
    paused_at: datetime | None
    who: str
    why: str
    waiting: int
    unknown: int
    failed: int
    sent_hour: int
    sent_hour_or_more: bool
    sent_day: int
    sent_day_or_more: bool
    relays: list[str]
    etag: str


class MailKinds(Answer):
    """All kinds that are registered, paused, or have e-mails."""

    kinds: list[MailKind]
