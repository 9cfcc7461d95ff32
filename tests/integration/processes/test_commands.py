"""`manage.py processes` lists what runs, and `check_heartbeat --process` asks about one."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.integration.conftest import database_now
from tests.set_up import needs_own_sessions
from weir.workers.processes import presence
from weir.workers.processes.models import Process

pytestmark = pytest.mark.django_db(transaction=True)


def known(name: str, *, pid: int = 7, silent_s: float = 1, host: str | None = None) -> None:
    """Create a process of this host, whose last heartbeat was so long ago."""
    now, host = database_now(), host or presence.host()
    turned_at = now - timedelta(seconds=silent_s)
    kind = name.partition(".")[0]
    Process.objects.create(
        kind=kind, name=f"{name}@{host}", host=host, pid=pid, started_at=now - timedelta(hours=2), turned_at=turned_at
    )


def listed(*options: str) -> tuple[str, int]:
    output = StringIO()
    try:
        call_command("processes", *options, stdout=output)
    except SystemExit as end:
        return output.getvalue(), int(str(end.code))
    return output.getvalue(), 0


def asked(name: str) -> str:
    output, errors = StringIO(), StringIO()
    call_command("check_heartbeat", "--process", name, stdout=output, stderr=errors)
    return output.getvalue() + errors.getvalue()


def test_the_list_says_how_each_process_does() -> None:
    """The exit status is 1 where one is silent; one that a later process of its name replaced does not count."""
    known("fetcher.1", pid=11)
    known("mailer", pid=10, silent_s=60)
    known("mailer", pid=12)
    text, status = listed()
    assert status == 0
    assert [line.split()[-1] for line in text.splitlines()] == ["state", "alive", "gone", "alive"]
    known("worker", pid=13, silent_s=60)
    text, status = listed()
    assert status == 1
    assert text.splitlines()[-1].split()[1:3] == ["worker", "13"]
    assert text.splitlines()[-1].split()[-1] == "silent"


def test_json_has_a_row_for_each_process() -> None:
    """With the times of its start and of its last heartbeat."""
    known("beat", pid=5, silent_s=60)
    text, status = listed("--json")
    [process] = json.loads(text)
    assert status == 1
    assert (process["kind"], process["pid"], process["state"]) == ("beat", 5, "silent")
    assert process["silent_s"] == pytest.approx(60, abs=5)


def test_no_process_at_all_is_no_success() -> None:
    """The list says what starts some."""
    text, status = listed()
    assert status == 1
    assert "make up" in text


@pytest.mark.parametrize("name", ["fetcher", "fetcher.2", "72", "fetcher.2@{host}"])
def test_a_probe_names_its_process_in_one_of_several_ways(name: str) -> None:
    """By its kind, its name or its id on this host, or by its whole name."""
    name = name.format(host=presence.host())
    known("fetcher.2", pid=72)
    known("mailer", pid=8, silent_s=60)
    known("fetcher.3", pid=73, silent_s=60, host="elsewhere")
    assert "is alive" in asked(name)
    Process.objects.update(turned_at=database_now() - timedelta(seconds=60))
    with pytest.raises(CommandError, match="has had no heartbeat for 60 s"):
        asked(name)


def test_a_probe_by_kind_fails_for_any_of_that_kind() -> None:
    """Of several fetchers on this host, one is frozen."""
    known("fetcher.1", pid=71)
    known("fetcher.2", pid=72, silent_s=60)
    with pytest.raises(CommandError, match=r"fetcher\.2@.* \(pid 72\)"):
        asked("fetcher")


def test_a_probe_of_a_process_that_is_not_known_fails() -> None:
    """It has not started yet, or died more than an hour ago."""
    with pytest.raises(CommandError, match="No process fetcher is known here"):
        asked("fetcher")


@needs_own_sessions
def test_a_probe_does_not_blame_a_process_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """While PostgreSQL does not answer, nobody can tell, and a restart of all processes would not help."""
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
    assert "it is not known whether" in asked("fetcher")
