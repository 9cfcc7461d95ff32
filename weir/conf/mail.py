"""The settings for e-mail, in addition to Django's own."""

from typing import Annotated

from pydantic import Field

from weir.conf.groups import SettingsGroup
from weir.conf.kinds import (
    HttpsOrigin,
    Path,
    PositiveCount,
    PositiveSeconds,
    Rate,
    RelayURLs,
    Routes,
    Seconds,
    Shown,
    Wanted,
)


class Mail(SettingsGroup):
    """Django's own settings name the mail server: `EMAIL_*` or, from Django 6.1 on, `MAILERS["default"]`."""

    title = "E-mail"

    WEIR_MAIL_CA_FILE: Path = Field(
        default="",
        description="The authorities for the mail server's certificate, a PEM file. Empty: the system's.",
    )
    WEIR_MAIL_XOAUTH2_TOKEN: str = Field(
        default="",
        description="The import path of a function `(user: str, host: str) -> str` that returns an access token, for "
        "a login by `AUTH XOAUTH2`.",
    )
    WEIR_MAIL_EHLO_NAME: Annotated[str, Wanted("a host name, such as out.shop.example")] = Field(
        default="",
        pattern=r"^[A-Za-z0-9._:\[\]-]*$",
        description="This host's name for mail servers (EHLO), such as `out.shop.example`; some want one that leads "
        "to it. Empty: its own.",
    )
    WEIR_MAIL_ENVELOPE_SENDER: str = Field(
        default="",
        description="The address for delivery reports; with one for each e-mail, `bounces+{id}@example.com` "
        "([how to](../how-to/resolve-unknown.md#when-e-mails-come-back)). Empty: that of `DEFAULT_FROM_EMAIL`.",
    )
    WEIR_MAIL_RELAYS: Annotated[RelayURLs, Shown("what `EMAIL_*` or `MAILERS` name")] = Field(
        default=(),
        description="The relays, separated by commas or blanks, such as `smtp+starttls://USER:PASSWORD@HOST:587, "
        "resend://KEY@api.resend.com` ([how to](../how-to/send-through-a-provider.md)).",
    )
    WEIR_MAIL_ROUTES: Annotated[Routes, Shown("each kind by all relays")] = Field(
        default={},
        description="The relays of each kind: `newsletter.*=bulk; *=main, bulk` "
        "([how to](../how-to/send-through-a-provider.md#a-relay-for-some-kinds)).",
    )
    WEIR_MAIL_RATE: Rate = Field(
        default="",
        description="How many e-mails each relay takes, such as `10/s`, over all workers. Relays at the same host and "
        "port share it; `django://` has none.",
    )
    WEIR_MAIL_DOMAIN_RATE: Rate = Field(
        default="",
        description="How many e-mails each domain of recipients takes, such as `1/s`, over all workers. Empty: any "
        "number, until its mail server refuses for now.",
    )
    WEIR_MAIL_UNSUBSCRIBE_ORIGIN: HttpsOrigin = Field(
        default="",
        description="The origin of links to [unsubscribe](../how-to/send-emails.md#unsubscribe-by-one-click): "
        "`https://shop.example`.",
    )
    WEIR_MAIL_SAME_WITHIN: Seconds = Field(
        default=7_200.0,
        description="Messages that [Django sends](../how-to/send-emails.md#every-e-mail-of-your-project) with the same "
        "content to the same recipient are one e-mail within this time. 400 s longer than `visibility_timeout`. "
        "0 = each is its own.",
    )
    WEIR_MAIL_LEASE: PositiveSeconds = Field(
        default=120.0,
        description="After this time a claimed e-mail that a lost worker had not begun is taken back.",
    )
    WEIR_MAIL_COMMAND_TIMEOUT: PositiveSeconds = Field(
        default=300.0,
        description="For each step of a submission: `MAIL`, `RCPT`, `DATA`, the content (RFC 5321, 4.5.3.2).",
    )
    WEIR_MAIL_REPLY_TIMEOUT: PositiveSeconds = Field(
        default=600.0,
        description="For the mail server's reply to the whole e-mail (RFC 5321, 4.5.3.2.6).",
    )
    WEIR_MAIL_UNKNOWN_AFTER: PositiveSeconds = Field(
        default=1_800.0,
        description="After this time without a word from its worker, an e-mail that was begun is `unknown`. Longer "
        "than `2 * WEIR_MAIL_COMMAND_TIMEOUT + WEIR_MAIL_REPLY_TIMEOUT`.",
    )
    WEIR_MAIL_MAX_ATTEMPTS: PositiveCount = Field(
        default=20,
        description="After so many attempts an e-mail that is refused for now fails: about six hours.",
    )
