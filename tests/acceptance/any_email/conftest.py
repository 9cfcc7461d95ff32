"""The project with members, running."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.fakes import mail_server
from tests.acceptance.any_email import club as clubs
from tests.acceptance.any_email.club import Club
from tests.home import DATABASE_URL
from tests.valkeys import Valkey


@pytest.fixture
def club(tmp_path: Path, embedded_servers: None) -> Iterator[Club]:  # noqa: ARG001  its PostgreSQL
    """All processes of the project, with a mail server, a broker and a database of its own."""
    if DATABASE_URL:
        pytest.skip("the project has a database on the embedded server")
    valkey = Valkey(tmp_path / "valkey")
    with clubs.database(), mail_server.running(tmp_path) as mail:
        made = Club(folder=tmp_path, mail=mail, valkey=valkey)
        try:
            made.prepare()
            for name in (*clubs.KILLED, "beat"):
                made.start(name)
            yield made
        finally:
            made.close()
            valkey.kill()
