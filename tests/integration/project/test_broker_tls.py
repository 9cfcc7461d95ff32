"""A broker over TLS must prove who it is before it gets the password: who reads our messages can have any task run."""

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError

from tests.unit.project.test_deployment_files import load_settings

SELF_SIGNED = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
)
SECRET = "s3cret"  # noqa: S105  what must not be seen by just any server


@dataclass(kw_only=True)
class Server:
    """A server with a certificate that it signed itself, and what it was told."""

    certificate: Path
    port: int
    told: list[bytes] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Run the server; it answers nothing."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = [*SELF_SIGNED.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Server(certificate=certificate, port=listener.getsockname()[1])

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with (
                        client,
                        contextlib.suppress(ssl.SSLError),
                        context.wrap_socket(client, server_side=True) as talk,
                    ):
                        made.told.append(talk.recv(4096))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def connect(url: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect to the broker that a variable names, as Celery does; it fails in any case."""
    monkeypatch.setenv(variable, url)
    loaded = load_settings()
    options = loaded["CELERY_BROKER_TRANSPORT_OPTIONS"]
    link: Any = Connection(loaded["CELERY_BROKER_URL"], transport_options=options)
    with link as broker, pytest.raises(OperationalError):
        broker.default_channel.close()


@pytest.mark.parametrize("variable", ["REDIS_URL", "CELERY_BROKER_URL"])
def test_a_server_with_a_certificate_of_its_own_gets_no_password(
    variable: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing at all is said to it."""
    connect(f"rediss://:{SECRET}@localhost:{server.port}/0", variable, monkeypatch)
    assert b"".join(server.told) == b""


def test_a_ca_of_ones_own_is_named_in_the_url(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that this CA vouches for is told the password."""
    url = f"rediss://:{SECRET}@localhost:{server.port}/0?ssl_ca_certs={server.certificate}"
    connect(url, "REDIS_URL", monkeypatch)
    assert SECRET.encode() in b"".join(server.told)
