"""`manage.py audit`: the trail as a list, and as JSON lines."""

import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from weir.workers.audit import listing
from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.audit.models import Door, Entry

pytestmark = pytest.mark.django_db
ADA = Actor(name="ada", door=Door.API, may=lambda _: True)
PAUSE = AuditedAction("sites.pause", "weir_ratelimit.change_site")


@pytest.fixture(autouse=True)
def _entries() -> None:
    for number in range(5):
        PAUSE.record(ADA, f"{number % 2}.example", "Why not?", before=None, after={"number": number})


def test_all_of_it_in_the_order_in_which_it_was_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "BATCH", 2)
    call_command("audit", "export")
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["after"]["number"] for entry in entries] == [0, 1, 2, 3, 4]
    assert entries[0] | {"id": 0, "at": ""} == {
        "id": 0,
        "at": "",
        "actor": "ada",
        "door": "api",
        "action": "sites.pause",
        "target": "0.example",
        "why": "Why not?",
        "before": None,
        "after": {"number": 0},
        "correlation_id": "",
    }


def test_a_list_goes_on_where_it_ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(listing, "A_PAGE", 2)
    numbers: list[int] = []
    cursor = ""
    while True:
        call_command("audit", "list", "--target", "0.example", "--after", cursor, "--json")
        page = json.loads(capsys.readouterr().out)
        numbers += [entry["after"]["number"] for entry in page["entries"]]
        if not (cursor := page["next"]):
            break
    assert numbers == [4, 2, 0]


def test_a_list_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("audit", "list", "--actor", "ada")
    [first, *_] = capsys.readouterr().out.splitlines()
    assert "ada (api)  sites.pause  0.example  number 4  Why not?" in first
    Entry.objects.none()


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(CommandError, match="The cursor does not belong to this list"):
        call_command("audit", "list", "--after", "x")


def test_entries_of_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A time, or how long ago; both actions take both ends."""
    Entry.objects.create(actor="ada", door="api", action="x", target="old", at=timezone.now() - timedelta(hours=3))
    for action in ("list", "export"):
        call_command("audit", action, "--until", "2h", *(["--json"] if action == "list" else []))
        out = capsys.readouterr().out
        assert ("old" in out, "0.example" in out) == (True, False)
        call_command("audit", action, "--since", (timezone.now() - timedelta(hours=2)).isoformat())
        out = capsys.readouterr().out
        assert ("old" in out, "0.example" in out) == (False, True)
        with pytest.raises(CommandError, match="must be a time such as"):
            call_command("audit", action, "--since", "yesterday")
