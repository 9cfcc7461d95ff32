"""A broker over TLS must prove who it is before it gets the password: who reads our messages can have any task run."""

import contextlib
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from weir.workers.models import Heartbeat

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


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [*SELF_SIGNED.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def server(self_signed: tuple[Path, Path]) -> Iterator[Server]:
    """Run the server; it answers nothing."""
    certificate, key = self_signed
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


# Opens the connections that Celery's app has for itself, and sends a message as web code does.
ASK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import project.checkout
project.checkout.CHECKOUT = Path(sys.argv[1])  # with its .env
from kombu.exceptions import OperationalError
from project.celery import app
from weir.workers.publish import publish
for connection in app.connection_for_read(), app.connection_for_write():
    try:
        connection.default_channel.close()
    except OperationalError as error:
        print(error)
print(publish("weir.fetches.sweep"))
"""
SETTINGS = "from project.settings import *\n"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to name the broker: in the environment, in the file .env, at the end of the settings; `{}` is the URL."""

    environment: dict[str, str] = field(default_factory=dict)
    env_file: str = ""
    settings: str = ""


WAYS = {
    "REDIS_URL": Way(environment={"REDIS_URL": "{}"}),
    "CELERY_BROKER_URL": Way(environment={"CELERY_BROKER_URL": "{}"}),
    "several": Way(environment={"CELERY_BROKER_URL": "{};{}"}),
    ".env": Way(env_file="CELERY_BROKER_URL={}\n"),
    "settings": Way(settings="CELERY_BROKER_URL = '{}'\n"),
    "settings, by list": Way(settings="CELERY_BROKER_URL = ['{}']\n"),
    "settings, to read and to write": Way(settings="CELERY_BROKER_READ_URL = CELERY_BROKER_WRITE_URL = '{}'\n"),
}


def ask(way: Way, url: str, folder: Path) -> str:
    """Return what a process says whose broker is named this way."""
    (folder / ".env").write_text(way.env_file.replace("{}", url))
    (folder / "team_settings.py").write_text(SETTINGS + way.settings.replace("{}", url))
    clean = {name: text for name, text in os.environ.items() if name not in {"REDIS_URL", "CELERY_BROKER_URL"}}
    environment = {
        **clean,
        "DJANGO_SETTINGS_MODULE": "team_settings",
        "REDIS_URL": "redis://127.0.0.1:1/0",  # nobody
        **{name: text.replace("{}", url) for name, text in way.environment.items()},
    }
    asking = Forked("-c", ASK, str(folder), environment=environment)
    told, _ = asking.communicate()
    return str(told)


@pytest.mark.parametrize("way", WAYS)
def test_a_server_with_a_certificate_of_its_own_gets_no_password(way: str, server: Server, tmp_path: Path) -> None:
    """Nothing at all is said to it, by any connection of Celery's app, however the broker is named."""
    told = ask(WAYS[way], f"rediss://:{SECRET}@localhost:{server.port}/0", tmp_path)
    assert told.count("certificate verify failed") >= 2, told
    assert told.splitlines()[-1] == "False"
    assert b"".join(server.told) == b""


@pytest.mark.parametrize("way", WAYS)
def test_a_ca_of_ones_own_is_named_in_the_url(way: str, server: Server, tmp_path: Path) -> None:
    """A server that this CA vouches for is told the password: so each way leads to it."""
    ask(WAYS[way], f"rediss://:{SECRET}@localhost:{server.port}/0?ssl_ca_certs={server.certificate}", tmp_path)
    assert SECRET.encode() in b"".join(server.told)


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_workers_and_beat_verify_too(name: str, server: Server, procfile: Procfile, eventually: Eventually) -> None:
    """By the Procfile's lines, with a broker that is named in the environment."""
    procfile.start(name, CELERY_BROKER_URL=f"rediss://:{SECRET}@localhost:{server.port}/0")
    eventually(lambda: "certificate verify failed" in procfile.said(name), "a refusal", seconds=60)
    assert b"".join(server.told) == b""


def test_a_socket_is_found_by_workers_and_web_code(procfile: Procfile, eventually: Eventually) -> None:
    """Kombu has another spelling than REDIS_URL: Celery is told that one, also where the environment has the other."""
    url = procfile.environment["REDIS_URL"]
    named = {"CELERY_BROKER_URL": url, "REDIS_URL": "redis://127.0.0.1:1/0"}
    procfile.start("worker", **named)
    asking = Forked(
        "-c",
        "import django; django.setup()\nfrom weir.workers.publish import publish\n"
        "from project.celery import app\napp.send_task('weir.heartbeat', args=('default',), queue='default')",
        environment={**procfile.environment, **named, "DJANGO_SETTINGS_MODULE": "project.settings"},
    )
    asking.communicate()
    eventually(Heartbeat.objects.filter(queue="default").exists, "a heartbeat", seconds=60)
