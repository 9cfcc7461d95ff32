"""The variables of e-mail."""

from typing import Annotated

from pydantic import Field, SecretStr

from project.environment.groups import Group
from project.environment.values import Flag, Port, PositiveCount, PositiveSeconds, Rate, RelayURLs, Routes, Shown


class Email(Group):
    """The `EMAIL_*` settings are Django's, and mean what they mean there."""

    title = "E-mail"

    EMAIL_BACKEND: str = Field(
        default="weir.workers.mail.smtp.EmailBackend",
        description="Django's mail backend. With another one, what its errors do not say for certain is `unknown`, "
        "unless it is a [Transport](python-api.md#a-mail-backend-of-your-own).",
    )
    EMAIL_HOST: str = Field(default="localhost", description="The mail server.")
    EMAIL_PORT: Port = Field(default=25, description="Its port.")
    EMAIL_HOST_USER: str = Field(
        default="",
        description="The user to log in there as. Without it, or without the password, there is no login.",
    )
    EMAIL_HOST_PASSWORD: SecretStr = Field(default=SecretStr(""), description="The password.")
    EMAIL_USE_TLS: Flag = Field(default=False, description="STARTTLS, mostly on port 587.")
    EMAIL_USE_SSL: Flag = Field(default=False, description="TLS from the first byte, mostly on port 465. Not both.")
    EMAIL_SSL_CERTFILE: str = Field(default="", description="A client's certificate, a PEM file.")
    EMAIL_SSL_KEYFILE: str = Field(default="", description="Its key, a PEM file.")
    WEIR_MAIL_CA_FILE: str = Field(
        default="",
        description="The certificate authorities that may have signed the mail server's certificate, a PEM file; "
        "empty: the system's.",
    )
    WEIR_MAIL_XOAUTH2_TOKEN: str = Field(
        default="",
        description="The import path of a function `(user: str, host: str) -> str`, called for each connection, that "
        "returns an access token. With it, the login is `AUTH XOAUTH2` instead of a password.",
    )
    WEIR_MAIL_EHLO_NAME: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._:\[\]-]*$",
        description="What this host calls itself to mail servers (EHLO): a name that leads to it, such as "
        "`out.shop.example`, which some servers demand. Empty: its own name, in a container that of the container.",
    )
    EMAIL_FILE_PATH: str = Field(
        default="", description="The folder of `django.core.mail.backends.filebased.EmailBackend`."
    )
    EMAIL_TIMEOUT: PositiveSeconds = Field(
        default=30.0,
        description="The longest time of each step that brings a connection to the mail server: the connection itself, "
        "TLS, its greeting, EHLO, the login.",
    )
    DEFAULT_FROM_EMAIL: str = Field(
        default="webmaster@localhost",
        description="The sender: `Name <name@example.com>`. Its domain is also that of the Message-IDs.",
    )
    WEIR_MAIL_ENVELOPE_SENDER: str = Field(
        default="",
        description="The address that delivery reports are sent to, such as `bounces@example.com`; empty: that of "
        "`DEFAULT_FROM_EMAIL`. With `{id}` before the @, as in `bounces+{id}@example.com`, each e-mail has one of its "
        "own ([how to](../how-to/resolve-unknown.md#when-e-mails-come-back)).",
    )
    WEIR_MAIL_RELAYS: Annotated[RelayURLs, Shown("what `EMAIL_BACKEND`, `EMAIL_HOST` and so on name")] = Field(
        default=SecretStr(""),
        description="The relays that e-mails leave by, with commas or blanks between them: "
        "`smtp://USER:PASSWORD@HOST:25`, `smtp+starttls://HOST:587`, `smtps://HOST:465`, "
        "`resend://KEY@api.resend.com`, `django://dotted.path.EmailBackend`. The first is used first, the second for "
        "what the first has certainly not accepted ([how to](../how-to/send-through-a-provider.md)).",
    )
    WEIR_MAIL_ROUTES: Annotated[Routes, Shown("each kind by all relays")] = Field(
        default="",
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
