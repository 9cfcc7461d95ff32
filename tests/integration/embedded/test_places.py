"""Where the embedded servers live: the home, and paths that would not do for a socket."""

import os
import stat
from pathlib import Path

import pytest

from project import embedded
from project.checkout import CHECKOUT
from project.embedded import EmbeddedError
from tests.integration.embedded.conftest import data_folder, sql, valkey


class TestPlaces:
    def test_the_home_is_beside_the_code_unless_the_environment_says_otherwise(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Every process of a checkout comes to the same home, wherever it was started."""
        monkeypatch.delenv("WEIR_HOME", raising=False)
        monkeypatch.chdir(tmp_path)
        assert embedded.home() == CHECKOUT / ".weir"
        monkeypatch.setenv("WEIR_HOME", "elsewhere")
        assert embedded.home() == CHECKOUT / "elsewhere"
        monkeypatch.setenv("WEIR_HOME", str(tmp_path))
        assert embedded.home() == tmp_path.resolve()

    def test_socket_paths_are_known_before_anything_exists_and_stay_the_same(self, new_home: Path) -> None:
        """Asking for them creates nothing; the servers come up exactly there."""
        before = embedded.postgres_socket_dir(new_home), embedded.valkey_socket(new_home)
        assert not new_home.exists()
        assert not data_folder(new_home).parent.exists()
        with embedded.servers(new_home, durable=False) as running:
            assert (running.postgres_socket_dir, running.valkey_socket) == before
            assert before == (embedded.postgres_socket_dir(new_home), embedded.valkey_socket(new_home))
            assert (before[0] / ".s.PGSQL.5432").is_socket()
            assert stat.S_IMODE(before[0].stat().st_mode) == 0o700
            assert stat.S_IMODE(before[1].parent.stat().st_mode) == 0o700

    @pytest.mark.parametrize("name", ["x" * 100, "a b", "a,b", "a?b", "a%b", "é"])
    def test_a_path_that_would_not_do_for_a_socket_is_replaced(self, open_folder: Path, name: str) -> None:
        """Too long for the kernel, or with a character that some URL or setting would read otherwise."""
        for path in (
            embedded.postgres_socket_dir(open_folder / name),
            embedded.valkey_socket(open_folder / name),
        ):
            assert name not in str(path)
            assert len(os.fsencode(path / ".s.PGSQL.5432")) <= 107

    def test_the_home_may_have_any_name(self, open_folder: Path) -> None:
        """Only the sockets move, into a folder that is ours alone."""
        home = open_folder / "a b,c?#%é'\"$x" / ("long" * 30) / ".weir"
        with embedded.servers(home) as running:
            for path in (running.postgres_socket_dir, running.valkey_socket.parent):
                assert path.parent == Path("/tmp")  # noqa: S108 -- the promise under test
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert data_folder(home).is_relative_to(home)
            assert sql(running, "SELECT 1") == (1,)
            valkey(running).set("key", "value")
        with embedded.servers(home, postgres=False) as running:
            assert valkey(running).get("key") == "value"
        embedded.discard(home)
        assert not running.postgres_socket_dir.exists()
        assert not running.valkey_socket.parent.exists()

    def test_a_short_folder_that_is_not_ours_alone_is_refused(self, open_folder: Path) -> None:
        """Another user may have made a folder of that name in /tmp."""
        home = open_folder / ("b" * 120)
        folder = embedded.valkey_socket(home).parent
        folder.mkdir()
        folder.chmod(0o777)
        try:
            sentence = f"{folder} is not a folder that belongs to the user .* alone: move it away, or set WEIR_HOME"
            with pytest.raises(EmbeddedError, match=sentence), embedded.servers(home, postgres=False):
                pass
            assert stat.S_IMODE(folder.stat().st_mode) == 0o777
        finally:
            folder.rmdir()
