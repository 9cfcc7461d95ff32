"""The owner of a home starts or adopts the embedded servers, and stops them; guests share them."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from project import embedded
from project.embedded import EmbeddedError, EmbeddedServers, ownership, postgres
from project.embedded.daemon import Daemon
from tests.integration.embedded.conftest import bystander, data_folder, owner_process, report, runs, sql, valkey
from tests.waiting import wait_for

only_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


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
        """Where DATABASE_URL names a PostgreSQL, Valkey runs alone."""
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
        """A home is deleted with all that belongs to it, but not while a process owns it."""
        with embedded.servers(new_home, durable=False):
            with pytest.raises(EmbeddedError, match=f"in use .running process {os.getpid()}.: stop that process"):
                embedded.discard(new_home)
            assert data_folder(new_home).exists()
        embedded.discard(new_home)
        assert not data_folder(new_home).parent.exists()
        assert not new_home.exists()


class TestEnds:
    def test_a_server_that_was_killed_is_started_again_with_its_data(self, home: Path) -> None:
        """By its owner, who says so; while all run, nothing happens."""
        said: list[str] = []
        with embedded.servers(home) as running:
            running.start_again(said.append)
            assert said == []
            sql(running, "CREATE TABLE started_again AS SELECT 42 AS answer")
            valkey(running).set("started_again", "42")
            for daemon in running._owned:
                kill(daemon)
                running.start_again(said.append)
            assert sql(running, "SELECT answer FROM started_again") == (42,)
            assert valkey(running).get("started_again") == "42"
        assert [sentence.partition(" has ended")[0] for sentence in said] == ["PostgreSQL", "Valkey"]
        assert all(Path(sentence.rpartition(" ")[2].rstrip(".")).exists() for sentence in said)

    @only_linux
    def test_what_a_killed_server_has_left_behind_is_ended(self, home: Path) -> None:
        """A session that computes does not notice the end of the first process, and no other server can start."""
        said: list[str] = []
        with embedded.servers(home, valkey=False, durable=False) as running, ThreadPoolExecutor() as threads:
            [daemon] = running._owned
            computes = "SELECT count(md5(n::text)) FROM generate_series(1, 1000000000) AS n"
            computing = threads.submit(sql, running, computes)
            active = "SELECT max(pid) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
            wait_for(lambda: sql(running, active)[0], 10, "the session")
            [pid] = sql(running, active)
            kill(daemon)
            running.start_again(said.append)
            assert isinstance(computing.exception(), psycopg.OperationalError)
            assert sql(running, "SELECT 1") == (1,)
        assert [str(pid) in sentence for sentence in said] == [True, False]

    def test_a_server_that_ends_again_and_again_is_given_up(self, home: Path) -> None:
        """The sentence names its log; a guest starts nothing."""
        said: list[str] = []
        with (
            embedded.servers(home, postgres=False, durable=False) as running,
            embedded.servers(home, postgres=False, durable=False) as guest,
        ):
            [daemon] = running._owned
            for _ in range(2):
                kill(daemon)
                guest.start_again(pytest.fail)
                running.start_again(said.append)
            kill(daemon)
            with pytest.raises(EmbeddedError, match=rf"Valkey has ended 3 times within 60 s.* see {home}/valkey\.log"):
                running.start_again(said.append)
        assert len(said) == 2


def kill(daemon: Daemon) -> None:
    """Kill a server, and wait for the end of all its processes."""
    pid = daemon.pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_for(daemon.has_ended, 10, f"the end of {daemon.name}")


class TestAdoption:
    def test_servers_of_a_killed_owner_are_adopted_with_their_data(self, home: Path, shared: Path) -> None:
        """A `kill -9` of the owner stops nothing and loses nothing; the next owner has the same processes."""
        with owner_process(home, shared) as owner:
            *pids, _ = report(owner)
            place = EmbeddedServers(
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
        """The settings are those of the new owner, not those of the killed one."""
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
        """After a restart of the machine, the number in a pid file may be that of any process."""
        pid_file = data_folder(home) / "postmaster.pid"
        with bystander(postgres._account()) as other:
            pid_file.write_text(f"{other.pid}\n{data_folder(home)}\n1\n5432\n\n\n\nready\n")
            with embedded.servers(home, valkey=False) as running:
                assert running.postgres_pid != other.pid
            assert other.poll() is None

    @only_linux
    def test_a_stale_pid_that_another_server_has_now_is_no_obstacle(self, home: Path, new_home: Path) -> None:
        """It may be a PostgreSQL as well, such as that of another checkout."""
        pid_file = data_folder(home) / "postmaster.pid"
        with embedded.servers(new_home, valkey=False, durable=False) as other:
            pid_file.write_text(f"{other.postgres_pid}\n{data_folder(home)}\n1\n5432\n\n\n\nready\n")
            with embedded.servers(home, valkey=False) as running:
                assert running.postgres_pid != other.postgres_pid
            assert sql(other, "SELECT 1") == (1,)

    def test_a_killed_initdb_leaves_nothing_harmful(self, home: Path) -> None:
        """Half a data folder is never in the place of the whole one, and is removed."""
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
        monkeypatch.setattr(ownership, "WAIT_TIMEOUT_S", 0.1)
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
        monkeypatch.setattr(ownership, "WAIT_TIMEOUT_S", 0.1)
        with embedded.servers(home, postgres=False, durable=False):
            (home / "owner.lock").write_text("stopping process 1\n")
            with (
                pytest.raises(EmbeddedError, match="not in service"),
                embedded.servers(home, postgres=False, durable=False),
            ):
                pass
