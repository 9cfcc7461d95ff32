"""Every environment variable that standalone Weir reads: Weir's settings, and what the project alone has.

Weir's settings are declared in `weir.conf.declared`, and Django's and the servers' here.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, SecretStr, model_validator

from project.environment.values import LogFormat, LogLevel, Port, ServerURL
from project.environment.web import Web
from weir.conf import declared
from weir.conf.declared import Declared
from weir.conf.groups import Group
from weir.conf.kinds import Flag, Networks, PositiveSeconds, Seconds, Shown, Texts

# Without a key of its own a checkout still starts on the embedded servers; a real database refuses it (`secret_key`).
INSECURE_SECRET_KEY = "insecure-set-DJANGO_SECRET_KEY-in-production"  # noqa: S105  a placeholder, not a secret
_KEEP_BLANKS = {"DJANGO_SECRET_KEY"}  # an empty one is a secret that did not arrive: Django signs nothing with it


class Django(Group):
    """Django itself, and the logs of every process."""

    title = "Django and logs"

    DJANGO_DEBUG: Flag = Field(
        default=False,
        description="Error pages with code. Never in production.",
    )
    DJANGO_SECRET_KEY: Annotated[SecretStr, Shown("a placeholder")] = Field(
        default=SecretStr(INSECURE_SECRET_KEY),
        description="Signs sessions. Where `DATABASE_URL` is set, it must be set, too, to a long random text: "
        '`python -c "import secrets; print(secrets.token_urlsafe(50))"`.',
    )
    DJANGO_ALLOWED_HOSTS: Texts = Field(
        default=["localhost", "127.0.0.1", "[::1]"],
        description="Host names under which the web process may be asked.",
    )
    WEIR_TLS_PROXIES: Networks = Field(
        default=[],
        description="Addresses or networks of the proxies with TLS before the web process: `10.0.0.5,fd00:5::/64`. "
        "Their `X-Forwarded-Proto` and `X-Forwarded-For` are believed, cookies leave by TLS only, and who comes "
        "without TLS is sent there ([how to](../how-to/use-real-servers.md#a-proxy-with-tls)).",
    )
    WEIR_HSTS_MAX_AGE: Seconds = Field(
        default=0.0,
        description="For how long browsers shall ask this host by TLS only (`Strict-Transport-Security`), such as "
        "`365d`; 0 = it is not said. They cannot be told otherwise before.",
    )
    WEIR_LOG_FORMAT: Annotated[LogFormat, Shown("JSON, or text where `DJANGO_DEBUG` is true")] = Field(
        default="",
        description="`json`, `text`, or `colour`: text with the colours of a terminal. `make up` sets one of the last "
        "two where it is empty.",
    )
    WEIR_LOG_LEVEL: LogLevel = Field(default="INFO", description="`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`.")


class OwnServers(Group):
    """Without a URL, Weir uses the servers that come as Python packages and run in the checkout."""

    title = "The servers"

    DATABASE_URL: Annotated[ServerURL, Shown("the embedded server")] = Field(
        default=SecretStr(""),
        description="PostgreSQL 15 or newer: `postgresql://USER:PASSWORD@HOST:5432/NAME`.",
    )
    REDIS_URL: Annotated[ServerURL, Shown("the embedded server")] = Field(
        default=SecretStr(""),
        description="Valkey 8, Redis 6.2, or newer: `redis://HOST:6379/0`, `rediss://...` for TLS, "
        "where `?ssl_ca_certs=/PATH` names a CA of your own, or `unix:///PATH?db=0`; "
        "`redis+sentinel://:PASSWORD@HOST:26379,HOST:26379/SERVICE/0` where Sentinels know the primary, "
        "`redis+cluster://:PASSWORD@HOST:6379,HOST:6379` for a cluster, and `rediss+...` for TLS. It holds the deltas "
        "of unread numbers, and Celery's messages.",
    )
    CELERY_BROKER_URL: Annotated[ServerURL, Shown("`REDIS_URL`")] = Field(
        default=SecretStr(""),
        description="Celery's broker, where that is another. A cluster is none. "
        "`BROKER_URL`, `CELERY_BROKER_READ_URL` and `CELERY_BROKER_WRITE_URL`, which only Celery reads, are refused.",
    )
    WEIR_HOME: str = Field(
        default=".weir",
        description="Where the embedded servers keep their data; relative to the checkout.",
    )


class Email(Group):
    """Django's own settings, which mean what they mean there."""

    title = "The mail server"

    EMAIL_BACKEND: str = Field(
        default="weir.workers.mail.smtp.EmailBackend",
        description="Django's mail backend. With one that is not for SMTP, what its errors do not say for certain is "
        "`unknown`, unless it is a [Transport](python-api.md#a-mail-backend-of-your-own).",
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


OWN: tuple[type[Group], ...] = (Django, Web, OwnServers, Email)
GROUPS: tuple[type[Group], ...] = (*OWN, *declared.GROUPS)


class Variables(Declared, Email, OwnServers, Web, Django):
    """The value of every variable, as the environment has it. Pydantic takes the fields of the last base first."""

    model_config = ConfigDict(defer_build=False)

    @model_validator(mode="before")
    @classmethod
    def _blank_means_default(cls, texts: dict[str, Any]) -> dict[str, Any]:
        return {name: text for name, text in texts.items() if text.strip() or name in _KEEP_BLANKS}

    def of_weir(self) -> dict[str, Any]:
        """Return those of Weir's settings that the environment sets: all others have their default."""
        return {name: getattr(self, name) for name in Declared.model_fields if name in self.model_fields_set}
