"""Every environment variable that standalone Weir reads: Weir's settings, and the variables of the project alone.

`weir.conf.declared` declares Weir's settings. This module declares the variables of Django and of the servers.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, SecretStr, model_validator

from project.environment.values import LogFormat, LogLevel, Port, ServerURL
from project.environment.web import Web
from weir.conf import declared
from weir.conf.declared import Declared
from weir.conf.groups import SettingsGroup
from weir.conf.kinds import Flag, Networks, PositiveSeconds, Seconds, Shown, Texts

# A checkout without a key of its own starts on the embedded servers, but not if DATABASE_URL is set (`secret_key`).
INSECURE_SECRET_KEY = "insecure-set-DJANGO_SECRET_KEY-in-production"  # noqa: S105  a placeholder, not a secret
_KEEP_BLANKS = {"DJANGO_SECRET_KEY"}  # an empty key is a secret that did not arrive; Django refuses to sign with it


class Django(SettingsGroup):
    """Django itself, and the logs of every process."""

    title = "Django and logs"

    DJANGO_DEBUG: Flag = Field(
        default=False,
        description="Error pages with code. Never in production.",
    )
    DJANGO_SECRET_KEY: Annotated[SecretStr, Shown("a placeholder")] = Field(
        default=SecretStr(INSECURE_SECRET_KEY),
        description='Signs sessions. Must be set where `DATABASE_URL` is: `python -c "import secrets; '
        'print(secrets.token_urlsafe(50))"`.',
    )
    DJANGO_ALLOWED_HOSTS: Texts = Field(
        default=["localhost", "127.0.0.1", "[::1]"],
        description="Host names under which the web process may be asked.",
    )
    WEIR_TLS_PROXIES: Networks = Field(
        default=[],
        description="Addresses or networks of the proxies with TLS, whose `X-Forwarded-*` are believed: "
        "`10.0.0.5,fd00:5::/64`. Requests without TLS are then redirected, and cookies need it "
        "([how to](../how-to/use-real-servers.md#a-proxy-with-tls)).",
    )
    WEIR_HSTS_MAX_AGE: Seconds = Field(
        default=0.0,
        description="For how long browsers ask this host by TLS only, such as `365d`, whatever they are told later. 0 "
        "= no such header.",
    )
    WEIR_LOG_FORMAT: Annotated[LogFormat, Shown("JSON, or text where `DJANGO_DEBUG` is true")] = Field(
        default="",
        description="`json`, `text`, or `colour`; where it is empty, `make up` sets one of the last two.",
    )
    WEIR_LOG_LEVEL: LogLevel = Field(default="INFO", description="`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`.")


class OwnServers(SettingsGroup):
    """Without a URL, Weir runs servers that come as Python packages."""

    title = "The servers"

    DATABASE_URL: Annotated[ServerURL, Shown("the embedded server")] = Field(
        default=SecretStr(""),
        description="PostgreSQL 15 or newer: `postgresql://USER:PASSWORD@HOST:5432/NAME`.",
    )
    REDIS_URL: Annotated[ServerURL, Shown("the embedded server")] = Field(
        default=SecretStr(""),
        description="Valkey 8, Redis 6.2, or newer: `redis://HOST:6379/0`, `rediss://...` for TLS, where "
        "`?ssl_ca_certs=/PATH` names a CA of your own, or `unix:///PATH?db=0`; "
        "`redis+sentinel://:PASSWORD@HOST:26379,HOST:26379/SERVICE/0` with Sentinels, "
        "`redis+cluster://:PASSWORD@HOST:6379,HOST:6379` for a cluster, `rediss+...` for TLS.",
    )
    CELERY_BROKER_URL: Annotated[ServerURL, Shown("`REDIS_URL`")] = Field(
        default=SecretStr(""),
        description="Celery's broker, where that is another; not a cluster. `BROKER_URL`, `CELERY_BROKER_READ_URL` "
        "and `CELERY_BROKER_WRITE_URL` are refused.",
    )
    WEIR_HOME: str = Field(
        default=".weir",
        description="Where the embedded servers keep their data.",
    )


class MailVariables(SettingsGroup):
    """Django's own settings."""

    title = "The mail server"

    EMAIL_BACKEND: str = Field(
        default="weir.workers.mail.smtp.EmailBackend",
        description="One that is neither for SMTP nor a [Transport](python-api.md#a-mail-backend-of-your-own) makes "
        "e-mails `unknown` where its error is not certain.",
    )
    EMAIL_HOST: str = Field(default="localhost", description="The mail server.")
    EMAIL_PORT: Port = Field(default=25, description="Its port.")
    EMAIL_HOST_USER: str = Field(
        default="",
        description="Without user and password, there is no login.",
    )
    EMAIL_HOST_PASSWORD: SecretStr = Field(default=SecretStr(""), description="The password.")
    EMAIL_USE_TLS: Flag = Field(default=False, description="STARTTLS, mostly on port 587.")
    EMAIL_USE_SSL: Flag = Field(default=False, description="TLS from the first byte, mostly on port 465.")
    EMAIL_SSL_CERTFILE: str = Field(default="", description="A client's certificate, a PEM file.")
    EMAIL_SSL_KEYFILE: str = Field(default="", description="Its key, a PEM file.")
    EMAIL_FILE_PATH: str = Field(default="", description="The folder of Django's file-based backend.")
    EMAIL_TIMEOUT: PositiveSeconds = Field(
        default=30.0,
        description="For each step of connecting: TLS, the greeting, EHLO, the login.",
    )
    DEFAULT_FROM_EMAIL: str = Field(
        default="webmaster@localhost",
        description="The sender, `Name <name@example.com>`, whose domain Message-IDs have.",
    )


OWN: tuple[type[SettingsGroup], ...] = (Django, Web, OwnServers, MailVariables)
GROUPS: tuple[type[SettingsGroup], ...] = (*OWN, *declared.GROUPS)


class Variables(Declared, MailVariables, OwnServers, Web, Django):
    """The value of every variable, as the environment has it. Pydantic takes the fields of the last base first."""

    model_config = ConfigDict(defer_build=False)

    @model_validator(mode="before")
    @classmethod
    def _blank_means_default(cls, texts: dict[str, Any]) -> dict[str, Any]:
        return {name: text for name, text in texts.items() if text.strip() or name in _KEEP_BLANKS}

    def of_weir(self) -> dict[str, Any]:
        """Return those of Weir's settings that the environment sets: all others have their default."""
        return {name: getattr(self, name) for name in Declared.model_fields if name in self.model_fields_set}
