"""The settings of e-mail, beside Django's own."""

from typing import Annotated

from pydantic import Field

from weir.conf.groups import Group
from weir.conf.kinds import Path, PositiveCount, PositiveSeconds, Rate, RelayURLs, Routes, Shown, Wanted


class Mail(Group):
    """What is not said here, Django's own settings say: `EMAIL_*` or, from Django 6.1 on, `MAILERS["default"]`."""

    title = "E-mail"

    WEIR_MAIL_CA_FILE: Path = Field(
        default="",
        description="The certificate authorities that may have signed the mail server's certificate, a PEM file; "
        "empty: the system's.",
    )
    WEIR_MAIL_XOAUTH2_TOKEN: str = Field(
        default="",
        description="The import path of a function `(user: str, host: str) -> str`, called for each connection, that "
        "returns an access token. With it, the login is `AUTH XOAUTH2` instead of a password.",
    )
    WEIR_MAIL_EHLO_NAME: Annotated[str, Wanted("a host name, such as out.shop.example")] = Field(
        default="",
        pattern=r"^[A-Za-z0-9._:\[\]-]*$",
        description="What this host calls itself to mail servers (EHLO): a name that leads to it, such as "
        "`out.shop.example`, which some servers demand. Empty: its own name, in a container that of the container.",
    )
    WEIR_MAIL_ENVELOPE_SENDER: str = Field(
        default="",
        description="The address that delivery reports are sent to, such as `bounces@example.com`; empty: that of "
        "`DEFAULT_FROM_EMAIL`. With `{id}` before the @, as in `bounces+{id}@example.com`, each e-mail has one of its "
        "own ([how to](../how-to/resolve-unknown.md#when-e-mails-come-back)).",
    )
    WEIR_MAIL_RELAYS: Annotated[RelayURLs, Shown("what `EMAIL_*` or `MAILERS` name")] = Field(
        default=(),
        description="The relays that e-mails leave by, with commas or blanks between them: "
        "`smtp://USER:PASSWORD@HOST:25`, `smtp+starttls://HOST:587`, `smtps://HOST:465`, "
        "`resend://KEY@api.resend.com`, `django://dotted.path.EmailBackend`. The first is used first, the second for "
        "what the first has certainly not accepted ([how to](../how-to/send-through-a-provider.md)).",
    )
    WEIR_MAIL_ROUTES: Annotated[Routes, Shown("each kind by all relays")] = Field(
        default={},
        description="Which relays the e-mails of a kind go by, and in which order: `newsletter.*=bulk; *=main, bulk`. "
        "`*` is all other kinds; a relay's name is that before its URL, `bulk=smtp://HOST:25` "
        "([how to](../how-to/send-through-a-provider.md#a-relay-for-some-kinds)).",
    )
    WEIR_MAIL_RATE: Rate = Field(
        default="",
        description="How many e-mails the mail server takes, such as `10/s`, over all workers. Each relay of "
        "`WEIR_MAIL_RELAYS` takes so many; those at the same host and port, together; one that begins with `django://` "
        "has no rate.",
    )
    WEIR_MAIL_DOMAIN_RATE: Rate = Field(
        default="",
        description="How many e-mails each domain of recipients takes, such as `1/s`, over all workers. Empty: as many "
        "as there are, until its mail server refuses for now.",
    )
    WEIR_MAIL_LEASE: PositiveSeconds = Field(
        default=120.0,
        description="The time after which an e-mail is taken back from a worker that claimed it, and has not begun to "
        "send it. A worker that lives renews it.",
    )
    WEIR_MAIL_COMMAND_TIMEOUT: PositiveSeconds = Field(
        default=300.0,
        description="The longest time of each step in which an e-mail is submitted: `MAIL`, `RCPT`, `DATA`, the "
        "content. Five minutes, says RFC 5321 (4.5.3.2).",
    )
    WEIR_MAIL_REPLY_TIMEOUT: PositiveSeconds = Field(
        default=600.0,
        description="The longest wait for the mail server's reply to the whole e-mail: ten minutes, says "
        "RFC 5321 (4.5.3.2.6).",
    )
    WEIR_MAIL_UNKNOWN_AFTER: PositiveSeconds = Field(
        default=1_800.0,
        description="The time after which an e-mail that a worker began to send, and said no more of, is `unknown`. "
        "Longer than `2 * WEIR_MAIL_COMMAND_TIMEOUT + WEIR_MAIL_REPLY_TIMEOUT`.",
    )
    WEIR_MAIL_MAX_ATTEMPTS: PositiveCount = Field(
        default=20,
        description="The number of attempts after which an e-mail fails that the mail server refuses for now: "
        "about six hours.",
    )
