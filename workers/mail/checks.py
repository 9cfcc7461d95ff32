"""System checks of the e-mail settings."""

import math
import ssl
from ipaddress import ip_address
from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  Django's name
from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string

from weir.conf import settings
from weir.conf.checks import register
from weir.conf.secrets import SecretUnknown, SecretUnusable
from weir.conf.texts import relay_urls
from weir.ratelimit import site_names
from weir.workers.mail import kinds, renderings
from weir.workers.mail.addresses import CannotBeWritten, from_address
from weir.workers.mail.providers.known import PROVIDERS
from weir.workers.mail.transports import mail_server, relays
from weir.workers.mail.writing import unsubscribing

# Django's test runner sets this backend before it runs the checks. The backend keeps e-mails in memory: nothing fails.
OF_TEST_RUNNERS = "django.core.mail.backends.locmem.EmailBackend"


@register()
def mail_server_can_have_a_rate(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E006: if WEIR_MAIL_RATE is set, the mail server's name must be valid as the name of a site."""
    try:
        if settings.WEIR_MAIL_RATE:
            site_names.canonical(relays.server_name())
    except site_names.InvalidSiteName as error:
        return [Error(f"WEIR_MAIL_RATE: {error}", hint="Leave it empty for no limit.", id="weir.E006")]
    return []


@register()
def mail_server_has_a_time_limit(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E007: a time-out in Django's settings must be positive. If there is none, Weir's own time-out is used."""
    server = mail_server.of_settings()
    if 0 < server.timeout_s < math.inf:  # this is false for NaN
        return []
    name = "EMAIL_TIMEOUT" if server.setting == mail_server.OF_EMAIL_SETTINGS else f"The timeout of {server.setting}"
    return [Error(f"{name} must be greater than 0 (seconds), but is {server.timeout_s}.", id="weir.E007")]


@register()
def unknown_is_what_cannot_be_in_flight(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E008: WEIR_MAIL_UNKNOWN_AFTER must be longer than a transmission and the wait for its reply can last."""
    longest = 2 * settings.WEIR_MAIL_COMMAND_TIMEOUT + settings.WEIR_MAIL_REPLY_TIMEOUT
    if longest < settings.WEIR_MAIL_UNKNOWN_AFTER:
        return []
    message = (
        f"WEIR_MAIL_UNKNOWN_AFTER must be longer than 2 * WEIR_MAIL_COMMAND_TIMEOUT + WEIR_MAIL_REPLY_TIMEOUT = "
        f"{longest:g} (seconds), but is {settings.WEIR_MAIL_UNKNOWN_AFTER:g}."
    )
    hint = f"Set it to more than {longest:g}: else an e-mail that is still being sent is called unknown."
    return [Error(message, hint=hint, id="weir.E008")]


@register()
def from_address_is_an_address(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E009: DEFAULT_FROM_EMAIL must be an address that mail servers take."""
    try:
        from_address()
    except CannotBeWritten as error:
        return [Error(f"DEFAULT_FROM_EMAIL: {error}", hint="Write Name <name@example.com>.", id="weir.E009")]
    return []


@register()
def envelope_sender_is_an_address(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E019: WEIR_MAIL_ENVELOPE_SENDER must be an address that has {id} at most once."""
    sentence = renderings.envelope_fault()
    hint = "Write bounces@example.com, or bounces+{id}@example.com."
    return [Error(f"WEIR_MAIL_ENVELOPE_SENDER: {sentence}", hint=hint, id="weir.E019")] if sentence else []


@register()
def mail_is_encrypted_in_one_way(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E010: EMAIL_USE_TLS and EMAIL_USE_SSL exclude each other.

    For MAILERS, Django's own backend raises the error, which weir.E011 reports.
    """
    server = mail_server.of_settings()
    if server.use_tls and server.use_ssl and server.setting == mail_server.OF_EMAIL_SETTINGS:
        hint = "EMAIL_USE_TLS is STARTTLS, mostly on port 587; EMAIL_USE_SSL is TLS from the first byte, on port 465."
        return [Error("EMAIL_USE_TLS and EMAIL_USE_SSL cannot both be true.", hint=hint, id="weir.E010")]
    return []


@register()
def login_is_possible(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E016: the function in WEIR_MAIL_XOAUTH2_TOKEN and the file in WEIR_MAIL_CA_FILE must exist."""
    wrong: list[CheckMessage] = []
    try:
        if settings.WEIR_MAIL_XOAUTH2_TOKEN:
            import_string(settings.WEIR_MAIL_XOAUTH2_TOKEN)
    except Exception as error:  # noqa: BLE001  importing a module runs its code, which may raise anything
        message = f"WEIR_MAIL_XOAUTH2_TOKEN: {settings.WEIR_MAIL_XOAUTH2_TOKEN!r} cannot be used: {error}."
        wrong.append(Error(message, hint="Write my_app.module.function.", id="weir.E016"))
    try:
        ssl.create_default_context(cafile=settings.WEIR_MAIL_CA_FILE or None)
    except OSError as error:
        message = f"WEIR_MAIL_CA_FILE: {settings.WEIR_MAIL_CA_FILE!r} cannot be used: {error}."
        wrong.append(Error(message, hint="Name a file with certificates in PEM format.", id="weir.E016"))
    return wrong


@register()
def secret_goes_over_tls(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W004: a password or a token should not be sent over a network unencrypted."""
    return [*_secret_of_server(), *_secrets_of_relays()]


@register()
def mail_backend_tells_its_phase(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E011: Django's mail backends must work, but for the outbox, which is no way to a relay (weir.E040).

    weir.W001: a backend should be able to tell, when it fails, whether the e-mail may have been accepted.
    """
    if not relays.urls():
        server = mail_server.of_settings()
        return _judge_backend(server.setting, server.backend, is_of_settings=True)
    paths = [url.path for url in map(relay_urls.parse, relays.urls()) if url.kind == relay_urls.DJANGO]
    return [message for path in paths for message in _judge_backend("WEIR_MAIL_RELAYS", path)]


@register()
def outbox_is_not_its_own_relay(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E040: what is queued in the outbox must not be sent to the outbox."""
    paths = [url.path for url in map(relay_urls.parse, relays.urls()) if url.kind == relay_urls.DJANGO]
    wrong = [f"WEIR_MAIL_RELAYS: {sentence}" for path in paths if (sentence := mail_server.outbox_fault(path))]
    if not relays.urls() and (sentence := mail_server.outbox_fault()):
        wrong.append(sentence)
    return [Error(each, hint="WEIR_MAIL_RELAYS may name the mail server, too.", id="weir.E040") for each in wrong]


@register()
def routes_can_be_read(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E020: WEIR_MAIL_ROUTES must name relays that exist; weir.W007: each route and relay should be used."""
    if sentence := relays.routes_fault():
        return [Error(sentence, hint="Write NAME=URL in WEIR_MAIL_RELAYS to name a relay.", id="weir.E020")]
    return [Warning(text, hint=hint, id="weir.W007") for text, hint in relays.unused(kinds.names())]


@register()
def provider_webhooks_can_be_received(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E041: the secret of a provider's webhooks must have its keys.

    weir.W043: what providers and recipients send needs URLs.
    """
    found: list[CheckMessage] = []
    named = ["WEIR_MAIL_UNSUBSCRIBE_ORIGIN"] if settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN else []
    for provider in PROVIDERS.values():
        try:
            provider.keys(provider.secret)
        except SecretUnknown:
            continue
        except SecretUnusable as error:
            hint = "docs/how-to/send-through-a-provider.md says where the provider shows it."
            found.append(Error(f"{provider.title}'s webhooks cannot be received: {error}.", hint=hint, id="weir.E041"))
        named.append(f"the secret {provider.secret}")
    if named and not _has_urls():
        message = f"{' and '.join(named)}: nothing reaches them, because no URL includes weir.workers.mail.web.urls."
        hint = 'Add path("mail/", include("weir.workers.mail.web.urls")) to the URLs.'
        found.append(Warning(message, hint=hint, id="weir.W043"))
    return found


def _has_urls() -> bool:
    try:
        reverse(unsubscribing.VIEW, args=["token"])
    except NoReverseMatch:
        return False
    return True


def _secret_of_server() -> list[CheckMessage]:
    server = mail_server.of_settings()
    has_secret = server.user and (server.has_password or settings.WEIR_MAIL_XOAUTH2_TOKEN)
    if not has_secret or server.use_tls or server.use_ssl or _is_loopback(server.host):
        return []
    if server.setting != mail_server.OF_EMAIL_SETTINGS:
        who, hint = f"the user of {server.setting}", "Set 'use_tls' or 'use_ssl' in its OPTIONS."
    else:
        who = "EMAIL_HOST_USER"
        hint = "Set EMAIL_USE_TLS=1, mostly with EMAIL_PORT=587, or EMAIL_USE_SSL=1, mostly with EMAIL_PORT=465."
    message = f"The password or token of {who} goes to {server.host} in the clear: who listens has it."
    return [Warning(message, hint=hint, id="weir.W004")]


def _secrets_of_relays() -> list[CheckMessage]:
    hint = "Write smtp+starttls:// or smtps:// instead of smtp://."
    return [
        Warning(
            f"WEIR_MAIL_RELAYS: the password for {url.name} goes there in the clear: who listens has it.",
            hint=hint,
            id="weir.W004",
        )
        for url in map(relay_urls.parse, relays.urls())
        if url.kind == relay_urls.SMTP and url.user and not (url.starts_tls or url.is_tls or _is_loopback(url.host))
    ]


def _judge_backend(setting: str, path: str, *, is_of_settings: bool = False) -> list[CheckMessage]:
    if mail_server.outbox_fault("" if is_of_settings else path):
        return []
    try:
        backend = import_string(path)
        if not mail_is_encrypted_in_one_way():  # else weir.E010 reports it
            mail_server.backend("" if is_of_settings else path)
    except Exception as error:  # noqa: BLE001  importing a module runs its code, which may raise anything
        message = f"{setting}: {path!r} cannot be used: {type(error).__name__}: {error}"
        return [Error(message, id="weir.E011")]
    if relays.tells_phase(backend) or path == OF_TEST_RUNNERS:
        return []
    message = (
        f"{setting}: {path} cannot tell how far it came, so that an e-mail becomes unknown, and waits for an "
        "operator, where its error does not say for certain that the e-mail was not accepted."
    )
    return [Warning(message, hint="For SMTP: weir.workers.mail.smtp.EmailBackend.", id="weir.W001")]


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine, judging only by its name or address (RFC 6761, 6.3)."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost")
