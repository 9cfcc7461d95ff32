"""`manage.py sites`: what it lists, what it changes, and how it refuses."""

import json
import time
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from ratelimit import slots
from ratelimit.models import Site
from workers.fetches.enqueue import request_fetches

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


def sites(*arguments: str) -> str:
    """Return what the command prints."""
    output = StringIO()
    call_command("sites", *arguments, stdout=output)
    return output.getvalue()


def listed(*arguments: str) -> list[dict[str, Any]]:
    """Return the sites of the list for machines."""
    found: list[dict[str, Any]] = json.loads(sites("--json", *arguments))["sites"]
    return found


def test_the_list_shows_rate_limits_and_backlog_by_name() -> None:
    """Each site has a line with its rate, limits, backlog and state; they stand in the order of their names."""
    slots.set_rate("b.example", "1/10s", burst=3, max_concurrency=2)
    slots.set_rate("a.example", "100/h")
    request_fetches([f"http://b.example/{number}" for number in range(1_234)])
    lines = [line.split() for line in sites().splitlines()]
    assert lines[1] == ["a.example", "100/h", "0", "0s", "idle"]
    assert lines[2] == ["b.example", "6/m", "3", "2", "1,234", "0s", "busy"]


def test_the_list_for_machines_has_all_fields() -> None:
    """`--json` prints one object that says of each site what the table says, in units named by the fields."""
    slots.set_rate("a.example", "1/s", covers_subdomains=True)
    assert json.loads(sites("--json")) == {
        "sites": [
            {
                "site": "a.example",
                "rate": "1/s",
                "burst": 1,
                "max_concurrency": None,
                "covers_subdomains": True,
                "backlog": 0,
                "booked_for_s": 0.0,
                "state": "idle",
                "paused_until": None,
                "backed_off_for_s": None,
            }
        ],
        "total": 1,
    }


def test_booked_until_is_counted_by_the_databases_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a lane is booked is right on a host whose clock is an hour wrong."""
    slots.set_rate("a.example", "1/100s")
    slots.reserve("a.example")
    wrong = time.time() + 3_600
    monkeypatch.setattr(time, "time", lambda: wrong)
    assert 90 < listed()[0]["booked_for_s"] < 101
    assert listed()[0]["state"] == "busy"


def test_a_pause_shows_before_a_back_off_and_both_show_their_end() -> None:
    """A paused lane says until when, one that only backed off for how long."""
    for name in ("backed-off.example", "both.example", "forever.example"):
        slots.set_rate(name, "1/s")
    slots.back_off("backed-off.example", 200)
    slots.back_off("both.example", 200)
    slots.pause("both.example", timedelta(hours=1))
    slots.pause("forever.example")
    backed_off, both, forever = listed()
    assert backed_off["state"] == "backed off"
    assert 190 < backed_off["backed_off_for_s"] <= 200
    assert (both["state"], both["backed_off_for_s"]) == ("paused", None)
    assert both["paused_until"].endswith("+00:00")
    assert (forever["state"], forever["paused_until"]) == ("paused", None)
    table = sites()
    assert "backed off for 3m" in table
    assert "paused until resumed" in table


def test_a_pause_that_is_over_is_not_shown() -> None:
    """A lane whose pause lies in the past is idle again by itself."""
    slots.set_rate("a.example", "1/s")
    slots.pause("a.example", timedelta(0))
    assert (listed()[0]["state"], listed()[0]["paused_until"]) == ("idle", None)


def test_the_busiest_are_kept_and_the_rest_is_counted() -> None:
    """With more sites than the limit, those with the largest backlog are shown, and how many are not."""
    for number, name in enumerate(("a.example", "b.example", "c.example")):
        slots.set_rate(name, "1/s")
        request_fetches([f"http://{name}/{page}" for page in range(number)])
    assert [site["site"] for site in listed("--limit", "2")] == ["b.example", "c.example"]
    assert "1 of 3 sites, less busy, are not shown: --limit 0 shows all." in sites("--limit", "2")
    assert len(listed("--limit", "0")) == 3


def test_a_hundred_thousand_sites_are_listed_at_once() -> None:
    """The list of the busiest takes a moment, not minutes, however many sites and queued fetches there are."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
            SELECT 'h' || n || '.example', '1 s', 1, true, false FROM generate_series(1, 100000) AS n
            """
        )
    request_fetches([f"http://h7.example/{number}" for number in range(1_000)])
    began_at = time.monotonic()
    assert max(listed(), key=lambda site: site["backlog"])["site"] == "h7.example"
    assert time.monotonic() - began_at < 5


def test_an_empty_list_says_how_sites_come_to_be() -> None:
    """Where there is no site, the command says so instead of showing an empty table."""
    assert sites().startswith("No sites yet")
    assert json.loads(sites("--json")) == {"sites": [], "total": 0}


def test_names_are_shown_literally_and_cannot_steer_the_terminal() -> None:
    """An IPv6 host is no markup, and a control character in a name does not reach the terminal."""
    slots.set_rate("[fd00::1]:8080", "1/s")
    Site.objects.create(name="a\x1b[31mb", interval=timedelta(seconds=1))
    table = sites()
    assert "[fd00::1]:8080 " in table
    assert "\x1b" not in table


def test_set_creates_a_site_and_changes_only_what_is_given() -> None:
    """`set` makes the lane; a second one keeps the settings that it does not name, and says what holds now."""
    told = sites("set", "New.Example.", "10/s", "--burst", "5", "--max-concurrency", "4", "--covers-subdomains")
    assert told == "new.example: 10/s, burst 5, at most 4 at once, covers its subdomains, running.\n"
    assert sites("set", "new.example", "1/10s") == told.replace("10/s", "6/m")
    site = Site.objects.get()
    assert (site.interval, site.burst, site.max_concurrency) == (timedelta(seconds=10), 5, 4)


def test_covering_subdomains_can_be_turned_off() -> None:
    """`--no-covers-subdomains` takes back what `--covers-subdomains` gave."""
    sites("set", "a.example", "1/s", "--covers-subdomains")
    assert sites("set", "a.example", "1/s", "--no-covers-subdomains") == "a.example: 1/s, running.\n"
    assert not Site.objects.get().covers_subdomains


def test_pause_and_resume_say_what_holds() -> None:
    """A pause holds for a time or until resumed; resuming ends it, and a back-off too."""
    slots.set_rate("a.example", "1/s")
    assert sites("pause", "a.example") == "a.example: 1/s, paused until resumed.\n"
    assert sites("pause", "a.example", "--for", "10m").startswith("a.example: 1/s, paused until 2")
    assert 590 < slots.estimate("a.example") <= 600
    slots.back_off("a.example", 100)
    assert sites("resume", "a.example") == "a.example: 1/s, running.\n"
    assert slots.estimate("a.example") <= 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set", "a.example", "fast"], "'fast' is not a rate: write COUNT/PERIOD"),
        (["set", "https://a.example/", "1/s"], "does not name a site: write its host"),
        (["set", "a.example", "1/s", "--burst", "0"], "burst must be at least 1, not 0"),
        (["set", "a.example", "1/s", "--max-concurrency", "-3"], "max_concurrency must be at least 1, not -3"),
        (["set", "a.example", "1/s", "--burst", "99999999999"], "99999999999 is too large"),
        (["pause", "nowhere.example"], "There is no site 'nowhere.example'"),
        (["resume", "nowhere.example"], "There is no site 'nowhere.example'"),
        (["pause", "nowhere.example", "--for", "soon"], "'soon' is not a length of time"),
        (["pause", "nowhere.example", "--for", ""], "'' is not a length of time"),
        (["--limit", "-1"], "must not be negative"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_and_changes_nothing(arguments: list[str], sentence: str) -> None:
    """What cannot be done ends as a CommandError with the library's own words; no site appears."""
    with pytest.raises(CommandError) as refusal:
        sites(*arguments)
    assert sentence in str(refusal.value)
    assert not Site.objects.exists()
