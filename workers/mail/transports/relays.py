"""Reads the relays in the settings, in their order, and which kinds of e-mail use them. No other module reads these.

Without WEIR_MAIL_RELAYS there is one relay, which Django's settings name (`mail_server`). Without WEIR_MAIL_ROUTES,
each kind may use all relays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from django.core.mail.backends import smtp
from django.utils.module_loading import import_string

from weir.conf import settings
from weir.conf.texts import kind_routes, relay_urls
from weir.conf.texts.relay_urls import RelayURL
from weir.workers.mail.transports import mail_server
from weir.workers.mail.transports.any_backend import AnyBackend
from weir.workers.mail.transports.base import Transport
from weir.workers.mail.transports.resend import ResendTransport
from weir.workers.mail.transports.smtp import EmailBackend


@dataclass(frozen=True, kw_only=True)
class Relay:
    """A relay. Its name identifies it, never changes, and contains no secret: `smtp.example.com:587`."""

    name: str
    key_lifetime: timedelta | None  # that of its transports: see `base.Transport`
    place: str  # HOST:PORT, also the name of the site that has the relay's rate; empty if Weir does not know the host
    is_smtp: bool  # whether it is a mail server, whose log may name e-mails
    _make: Callable[[], Transport] = field(repr=False)

    def new(self) -> Transport:
        """Return a new connection to the relay, not opened yet. For one thread."""
        return self._make()


@dataclass(frozen=True, kw_only=True)
class MailStream:
    """The kinds of e-mails that use the same relays, in the same order."""

    relays: tuple[Relay, ...]
    kinds: Mapping[str, bool]  # all patterns of kinds, and whether kinds with this pattern are in this stream


def relays() -> tuple[Relay, ...]:
    """Return the relays that the settings name, at least one, the first choice first.

    Raises InvalidRelay for a URL that names no relay, and any error of importing a Django backend.
    """
    return tuple(_relay(relay_urls.parse(url)) for url in urls()) or (_of_settings(),)


def streams() -> list[MailStream]:
    """Return the streams; each kind is in exactly one. Raises InvalidRelay, and errors of importing a backend."""
    by_pattern = _by_pattern()
    lists = {tuple(relay.name for relay in found): found for found in by_pattern.values()}
    return [
        MailStream(relays=these, kinds={pattern: found == these for pattern, found in by_pattern.items()})
        for these in lists.values()
    ]


def of_kind(kind: str) -> tuple[Relay, ...]:
    """Return the relays that e-mails of a kind use, the first choice first. Raises as `streams`."""
    by_pattern = _by_pattern()
    return by_pattern[kind_routes.of_kind(kind, by_pattern)]


def named(name: str, among: Sequence[Relay]) -> Relay | None:
    """Return the relay with this name, which may also be the project's own name for the relay."""
    return next((relay for relay in among if name in {relay.name, own_name(relay)}), None)


def own_name(relay: Relay) -> str:
    """Return the project's own name for a relay; if there is none, the relay's whole name."""
    return relay_urls.own_name(relay.name)


def routes_fault() -> str:
    """Return a sentence about an unknown relay in WEIR_MAIL_ROUTES; an empty string if all relays are known."""
    known = relays() if settings.WEIR_MAIL_ROUTES else ()
    for pattern, names in settings.WEIR_MAIL_ROUTES.items():
        for name in names:
            if not named(name, known):
                has = ", ".join(own_name(relay) for relay in known)
                return f"WEIR_MAIL_ROUTES: {pattern} names the relay {name}, but WEIR_MAIL_RELAYS has {has}."
    return ""


def unused(kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield sentences with remedies, about routes that none of these kinds takes, and relays that no kind uses."""
    routes: Mapping[str, Sequence[str]] = settings.WEIR_MAIL_ROUTES
    taken = {kind_routes.of_kind(kind, routes) for kind in kinds}
    for pattern in routes:
        if pattern not in {*taken, kind_routes.OTHERS}:
            hint = f"The kinds are {', '.join(kinds)}: `manage.py emails kinds`."
            yield f"WEIR_MAIL_ROUTES: no installed app registers a kind of e-mail that takes the route {pattern}.", hint
    used = {name for names in routes.values() for name in names}
    for relay in relays() if routes else ():
        if not used & {relay.name, own_name(relay)}:
            yield (
                f"WEIR_MAIL_ROUTES: no kind uses the relay {own_name(relay)}.",
                "Name it in a route, or remove it from WEIR_MAIL_RELAYS.",
            )


def _by_pattern() -> dict[str, tuple[Relay, ...]]:
    """Return the relays by patterns of kinds, including `*`."""
    known = relays()
    if not settings.WEIR_MAIL_ROUTES:
        return {kind_routes.OTHERS: known}
    if fault := routes_fault():
        raise relay_urls.InvalidRelay(fault)
    return {
        pattern: tuple(relay for name in names if (relay := named(name, known)))
        for pattern, names in settings.WEIR_MAIL_ROUTES.items()
    }


def urls() -> list[str]:
    """Return the URLs of WEIR_MAIL_RELAYS, with their secrets."""
    return [url.get_secret_value() for url in settings.WEIR_MAIL_RELAYS]


def tells_phase(backend: object) -> bool:
    """Return whether a backend (an object or its class) is a Transport."""
    return hasattr(backend, "submit")


def server_name() -> str:
    """Return the mail server that Django's settings name, as HOST:PORT: also the name of its site."""
    server = mail_server.of_settings()
    return f"{relay_urls.bracketed(server.host)}:{server.port}"


def _of_settings() -> Relay:
    path = mail_server.of_settings().backend
    return Relay(
        name=server_name(),
        key_lifetime=_key_lifetime(path),
        place=server_name(),
        is_smtp=_is_smtp(path),
        _make=lambda: _transport(mail_server.backend()),
    )


def _relay(url: RelayURL) -> Relay:
    if url.kind == relay_urls.DJANGO:
        return Relay(
            name=url.name,
            key_lifetime=_key_lifetime(url.path),
            place="",
            is_smtp=_is_smtp(url.path),
            _make=lambda: _transport(mail_server.backend(url.path)),
        )
    is_resend = url.kind == relay_urls.RESEND
    lifetime = ResendTransport.key_lifetime if is_resend else EmailBackend.key_lifetime
    make = _resend if is_resend else _smtp
    return Relay(
        name=url.name,
        key_lifetime=lifetime,
        place=f"{relay_urls.bracketed(url.host)}:{url.port}",
        is_smtp=not is_resend,
        _make=lambda: make(url),
    )


def _smtp(url: RelayURL) -> Transport:
    # Each argument is given: instead of an argument that is None, Django's backend would use the EMAIL_* setting, which
    # describes another server. Only the time-out and our client certificate are shared with that server. From Django
    # 6.1 on, a backend with an alias does not read those settings.
    ours = mail_server.of_settings()
    return EmailBackend(
        host=url.host,
        port=url.port,
        username=url.user,
        password=url.secret.get_secret_value(),
        use_tls=url.starts_tls,
        use_ssl=url.is_tls,
        timeout=ours.timeout_s,
        ssl_certfile=ours.certfile,
        ssl_keyfile=ours.keyfile,
        alias=url.name,
    )


def _resend(url: RelayURL) -> Transport:
    return ResendTransport(url.host, url.port, url.secret, is_tls=url.is_tls)


def _transport(backend: Any) -> Transport:  # noqa: ANN401  any mail backend
    return cast("Transport", backend) if tells_phase(backend) else AnyBackend(backend)


def _key_lifetime(path: str) -> timedelta | None:
    lifetime: timedelta | None = getattr(import_string(path), "key_lifetime", None)
    return lifetime


def _is_smtp(path: str) -> bool:
    """Return whether the backend talks to a mail server, as Django's SMTP backend does. An API leaves no mail log."""
    backend = import_string(path)
    return isinstance(backend, type) and issubclass(backend, smtp.EmailBackend)
