"""The relays that the settings name. The only module that reads which mail backend is used."""

from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from django.core import mail

from workers.mail.transports.any_backend import AnyBackend
from workers.mail.transports.base import Transport


def tells_phase(backend: object) -> bool:
    """Tell whether a backend (or its class) is a Transport."""
    return hasattr(backend, "submit")


def backend_path() -> str:
    """Return the import path of the backend that the settings name."""
    path: str = settings.EMAIL_BACKEND
    return path


def server_name() -> str:
    """Return the mail server that the settings name, as HOST:PORT: also the name of its site, which has the rate."""
    host = f"[{settings.EMAIL_HOST}]" if ":" in settings.EMAIL_HOST else settings.EMAIL_HOST
    return f"{host}:{settings.EMAIL_PORT}"


@dataclass(frozen=True)
class Relay:
    """A way out."""

    name: str

    def new(self) -> Transport:
        """Return a new connection to it, not opened yet."""
        return new()


def relays() -> tuple[Relay, ...]:
    """Return the relays that the settings name, in the order in which they are used."""
    return (Relay(server_name()),)


def new() -> Transport:
    """Return a new connection of the project's mail backend, not opened yet."""
    backend: Any = mail.get_connection(backend_path())
    return cast("Transport", backend) if tells_phase(backend) else AnyBackend(backend)
