"""`manage.py watches`: people and programs list, show, add, pause, resume and remove."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from weir.workers.audit.models import Entry
from weir.workers.watches import listing
from weir.workers.watches.models import Watch

pytestmark = pytest.mark.django_db(transaction=True)

URL = "https://a.example/prices"


def run(*words: str) -> str:
    """Return what the command prints."""
    out = StringIO()
    call_command("watches", *words, stdout=out)
    return out.getvalue()


def data(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def test_a_watch_from_its_beginning_to_its_end() -> None:
    added = data(
        "add", URL, "--every", "1h", "--shortest", "10m", "--longest", "1d", "--header", "Accept: text/html",
        "--on-change", "elsewhere.changed", "--tell-first", "--no-revalidate",
    )  # fmt: skip
    shown = data("show", str(added["id"]))
    assert (shown["key"], shown["period_s"], shown["shortest_s"], shown["longest_s"]) == (URL, 3600, 600, 86_400)
    assert (shown["headers"], shown["on_change"], shown["tell_first"], shown["revalidate"]) == (
        ["Accept: text/html"],
        "elsewhere.changed",
        True,
        False,
    )
    assert URL in run("show", str(added["id"]))
    assert run("pause", str(added["id"])) == "1 watch paused.\n"
    assert [watch["state"] for watch in data("list", "--state", "paused")["watches"]] == ["paused"]
    run("resume", str(added["id"]))
    assert data("list", "--state", "paused")["watches"] == []
    with pytest.raises(CommandError, match="There is no watch 99"):
        run("remove", str(added["id"]), "99")
    assert run("list") == "No watches.\n"


def test_each_change_is_in_the_audit_trail() -> None:
    """Also one of its headers alone; a call that changes nothing is not."""
    for accepted in ("text/html", "text/html", "text/plain"):
        run("add", URL, "--every", "1h", "--header", f"Accept: {accepted}")
    assert [entry.changes for entry in Entry.objects.order_by("-pk")[:1]] == [
        [("headers", ["Accept: text/html"], ["Accept: text/plain"])]
    ]
    assert Entry.objects.count() == 2


def test_a_list_goes_on_where_it_ended() -> None:
    for number in range(5):
        run("add", f"https://{'a' if number % 2 else 'b'}.example/{number}", "--every", "1d")
    first = data("list", "--limit", "3")
    rest = data("list", "--limit", "3", "--after", first["next"])
    assert [row["url"][-1] for row in (*first["watches"], *rest["watches"])] == ["4", "3", "2", "1", "0"]
    assert rest["next"] is None
    assert len(data("list", "--host", "a.example")["watches"]) == 2
    assert len(data("list", "--key", "https://B.example/0")["watches"]) == 1
    assert "1d 00h" in run("list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "ftp://a.example/", "--every", "1h"), "cannot be watched"),
        (("add", URL, "--every", "0.1"), "between a second and 366 days"),
        (("add", URL, "--every", "1h", "--shortest", "10m"), "or none of them"),
        (("add", URL, "--every", "1h", "--header", "Authorization: Bearer x"), "name the secret"),
        (("show", "99"), "There is no watch 99"),
        (("list", "--after", "nonsense"), "does not belong to this list"),
        (("list", "--state", "faling"), "failing"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)
    assert Watch.objects.count() == 0


def test_each_state_of_a_list() -> None:
    """What `--state` names is what is listed."""
    run("add", URL, "--every", "1h")
    Watch.objects.update(error="no answer", failing_since="2026-01-31T12:00Z")
    assert [row["state"] for row in data("list", "--state", "failing")["watches"]] == [listing.FAILING]
