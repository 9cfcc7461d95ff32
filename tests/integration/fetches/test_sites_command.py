"""`manage.py sites`: what it lists, what it changes, and how it refuses."""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.robots.conftest import known
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, RobotsState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


def sites(*arguments: str) -> str:
    """Return what the command prints."""
    output = StringIO()
    call_command("sites", *arguments, stdout=output)
    return output.getvalue()


def listed(*arguments: str) -> list[dict[str, Any]]:
    """Return the sites of the list for machines."""
    found: list[dict[str, Any]] = json.loads(sites("list", "--json", *arguments))["sites"]
    return found


def test_the_list_shows_rate_limits_and_backlog_by_name() -> None:
    """Each site has a line with its rate, limits, backlog and state; the lines are in the order of the names."""
    site_settings.set_rate("b.example", "1/10s", burst=3, max_concurrency=2)
    site_settings.set_rate("a.example", "100/h")
    request_fetches([f"http://b.example/{number}" for number in range(1_234)])
    lines = [line.split() for line in sites().splitlines()]
    assert lines[1] == ["a.example", "100/h", "0", "0s", "idle"]
    assert lines[2] == ["b.example", "1/10s", "3", "2", "1,234", "0s", "busy"]


def test_the_list_for_machines_has_all_fields() -> None:
    """`--json` prints one object that says of each site what the table says, in units named by the fields."""
    site_settings.set_rate("a.example", "1/s", covers_subdomains=True)
    assert json.loads(sites("list", "--json")) == {
        "sites": [
            {
                "site": "a.example",
                "rate": "1/s",
                "effective_interval_s": 1.0,
                "burst": 1,
                "max_concurrency": None,
                "covers_subdomains": True,
                "obeys_robots": None,
                "refusing": None,
                "backlog": 0,
                "clears_in_s": 0.0,
                "seen_per_s": 0.0,
                "share": 0.0,
                "refusals": 0,
                "starts_out_of_time": 0,
                "out_of_time_at": None,
                "reserved_for_s": 0.0,
                "state": "idle",
                "paused_until": None,
                "paused_by": None,
                "paused_why": None,
                "backed_off_for_s": None,
                "backed_off_as": None,
                "unreachable": None,
            }
        ],
        "total": 1,
    }


def test_a_crawl_delay_shows_in_the_rate_until_robots_txt_is_obeyed_no_more() -> None:
    """The effective rate is shown with its reason; `--no-obey-robots` restores the set one, and wakes dispatch."""
    site_settings.set_rate("a.example", "1/s")
    site_settings.set_crawl_delay(Site.objects.get().pk, timedelta(seconds=10))
    assert "6/m (robots.txt)" in sites()
    assert (
        sites("set", "a.example", "1/s", "--no-obey-robots") == "a.example: 1/s, does not obey robots.txt, running.\n"
    )
    assert listed()[0]["effective_interval_s"] == 1.0
    assert listed()[0]["obeys_robots"] is False


def test_statuses_that_refuse_are_set_shown_and_taken_back() -> None:
    """In addition to those that always refuse."""
    told = sites("set", "a.example", "1/s", "--refusing", "999,403")
    assert told == "a.example: 1/s, refuses by 403, 429, 503, 999, running.\n"
    assert listed()[0]["refusing"] == [403, 429, 503, 999]
    assert json.loads(sites("show", "a.example", "--json"))["refusing"] == [403, 429, 503, 999]
    assert sites("set", "a.example", "--default-refusing") == "a.example: 1/s, running.\n"


def test_headers_are_set_shown_and_taken_back() -> None:
    """All of them at once; a secret is only named."""
    given = {"Authorization": "Bearer {secret:SHOP}", "Accept": "text/csv"}
    told = sites("set", "a.example", "1/s", *(part for line in given.items() for part in ("--header", ": ".join(line))))
    assert told == "a.example: 1/s, headers Accept, Authorization, running.\n"
    assert json.loads(sites("show", "a.example", "--json"))["headers"] == given
    sites("set", "a.example", "--header", "X-A:1")
    assert json.loads(sites("show", "a.example", "--json"))["headers"] == {"X-A": "1"}
    assert sites("set", "a.example", "--no-headers") == "a.example: 1/s, running.\n"


def test_a_query_is_set_shown_and_taken_back() -> None:
    """As headers are."""
    assert sites("set", "a.example", "1/s", "--query", "key={secret:SHOP}").endswith(" 1/s, query key, running.\n")
    assert json.loads(sites("show", "a.example", "--json"))["query"] == {"key": "{secret:SHOP}"}
    assert sites("set", "a.example", "--no-query") == "a.example: 1/s, running.\n"


def test_a_network_is_set_shown_and_taken_back(settings: Settings) -> None:
    """As headers are; a proxy is one that the settings allow, and secrets are only named."""
    settings.WEIR_FETCH_PROXIES = ["proxy.example:3128"]
    proxy, ca = "proxy=http://{secret:PROXY}@proxy.example:3128", "ca={secret:CA}"
    assert sites("set", "a.example", "1/s", "--network", proxy, "--network", ca).endswith(
        " 1/s, network ca, proxy, running.\n"
    )
    shown = {"proxy": "http://{secret:PROXY}@proxy.example:3128", "ca": "{secret:CA}"}
    assert json.loads(sites("show", "a.example", "--json"))["network"] == shown
    for wrong in (
        "proxy=http://other.example:3128", "proxy=http://kim:password@proxy.example:3128", "proxy=proxy.example:3128",
        "proxy=http://proxy.example:99999", "ca=/etc/ssl/ca.pem", "ca={secret:A}{secret:B}", "via=x", "ca",
    ):  # fmt: skip
        with pytest.raises((CommandError, ValueError)) as refused:
            sites("set", "a.example", "--network", wrong)
        assert "password" not in str(refused.value)
    assert json.loads(sites("show", "a.example", "--json"))["network"] == shown
    assert sites("set", "a.example", "--no-network") == "a.example: 1/s, running.\n"


def test_what_a_site_answered_that_is_left_alone_is_shown() -> None:
    """A refusal, and a quota that is used up, which is not a refusal."""
    site_settings.set_rate("a.example", "1/s")
    site_settings.back_off("a.example", 60, reason="it answered 403 with Retry-After: 60")
    assert (listed()[0]["state"], listed()[0]["refusals"]) == ("backed off", 1)
    assert listed()[0]["backed_off_as"] == "it answered 403 with Retry-After: 60"
    assert ", it answered 403 with Retry-After: 60." in sites("set", "a.example")
    site_settings.rest("a.example", 7230, reason="its quota is used up (RateLimit)")
    assert (listed()[0]["state"], listed()[0]["refusals"]) == ("resting", 1)
    assert "resting for 2h" in sites("list", "--state", "resting")
    assert "No such sites." in sites("list", "--state", "backed off")
    assert "resting until" in sites("show", "a.example")
    assert "its quota is used up (RateLimit)" in sites("show", "a.example")
    assert "resting for 2h" in sites("forecast", "a.example")


def test_reserved_for_is_counted_by_the_databases_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a site is reserved is right on a host whose clock is an hour wrong."""
    site_settings.set_rate("a.example", "1/100s")
    slots.reserve("a.example")
    wrong = time.time() + 3_600
    monkeypatch.setattr(time, "time", lambda: wrong)
    assert 90 < listed()[0]["reserved_for_s"] < 101
    assert listed()[0]["state"] == "busy"


def test_a_pause_shows_before_a_back_off_and_both_show_their_end() -> None:
    """A paused site shows until when, a site that only backed off for how long."""
    for name in ("backed-off.example", "both.example", "forever.example"):
        site_settings.set_rate(name, "1/s")
    site_settings.back_off("backed-off.example", 200)
    site_settings.back_off("both.example", 200)
    site_settings.pause("both.example", timedelta(hours=1))
    site_settings.pause("forever.example")
    backed_off, both, forever = listed()
    assert backed_off["state"] == "backed off"
    assert 190 < backed_off["backed_off_for_s"] <= 200
    assert (both["state"], both["backed_off_for_s"]) == ("paused", None)
    assert both["paused_until"].endswith("+00:00")
    assert (forever["state"], forever["paused_until"]) == ("paused", None)
    table = sites()
    assert "backed off, next try in 3m" in table
    assert "paused until resumed" in table


def test_a_pause_that_is_over_is_not_shown() -> None:
    """A site whose pause lies in the past is idle again by itself."""
    site_settings.set_rate("a.example", "1/s")
    site_settings.pause("a.example", timedelta(0))
    assert (listed()[0]["state"], listed()[0]["paused_until"]) == ("idle", None)


def test_the_busiest_are_kept_and_the_rest_is_counted() -> None:
    """With more sites than the limit, those with the largest backlog are shown, and the number of the others."""
    for number, name in enumerate(("a.example", "b.example", "c.example")):
        site_settings.set_rate(name, "1/s")
        request_fetches([f"http://{name}/{page}" for page in range(number)])
    assert [site["site"] for site in listed("--limit", "2")] == ["b.example", "c.example"]
    assert "1 of 3 sites, less busy, are not shown: --limit 0 shows all." in sites("list", "--limit", "2")
    assert len(listed("--limit", "0")) == 3


def test_a_hundred_thousand_sites_are_listed_at_once() -> None:
    """The list of the busiest takes a moment, not minutes, however many sites and queued fetches there are."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
            SELECT 'h' || n || '.example', '1 s', 1, true, false FROM generate_series(1, 100000) AS n
            """
        )
    request_fetches([f"http://h7.example/{number}" for number in range(1_000)])
    began_at = time.monotonic()
    assert max(listed(), key=lambda site: site["backlog"])["site"] == "h7.example"
    assert time.monotonic() - began_at < 5


def test_the_list_can_be_searched_and_has_the_sites_of_one_state() -> None:
    """By the beginning or the end of names; if nothing is found, that is said."""
    for name in ("api.a.example", "api.b.test", "www.a.example"):
        site_settings.set_rate(name, "1/s")
    site_settings.pause("api.b.test")
    assert [site["site"] for site in listed("--search", "api.")] == ["api.a.example", "api.b.test"]
    assert [site["site"] for site in listed("--search", ".a.example")] == ["api.a.example", "www.a.example"]
    assert [site["site"] for site in listed("--state", "paused")] == ["api.b.test"]
    assert sites("list", "--state", "paused", "--search", "www.") == "No such sites.\n"
    assert "There may be more than 1: --limit 0 shows all." in sites("list", "--search", "api.", "--limit", "1")


def test_an_empty_list_says_how_sites_come_to_be() -> None:
    """If there is no site, the command says so instead of showing an empty table."""
    assert sites().startswith("No sites yet")
    assert json.loads(sites("list", "--json")) == {"sites": [], "total": 0}


def test_names_are_shown_literally_and_cannot_steer_the_terminal() -> None:
    """An IPv6 host is not markup, and a control character in a name does not reach the terminal."""
    site_settings.set_rate("[fd00::1]:8080", "1/s")
    Site.objects.create(name="a\x1b[31mb", interval=timedelta(seconds=1))
    table = sites()
    assert "[fd00::1]:8080 " in table
    assert "\x1b" not in table


def test_set_creates_a_site_and_changes_only_what_is_given() -> None:
    """`set` makes the site; a second one keeps the settings that it does not name, and says what holds now."""
    told = sites("set", "New.Example.", "10/s", "--burst", "5", "--max-concurrency", "4", "--covers-subdomains")
    assert told == "new.example: 10/s, burst 5, at most 4 at once, covers its subdomains, running.\n"
    assert sites("set", "new.example", "1/10s") == told.replace("10/s", "1/10s")
    site = Site.objects.get()
    assert (site.interval, site.burst, site.max_concurrency) == (timedelta(seconds=10), 5, 4)


def test_set_without_a_rate_changes_one_setting() -> None:
    """The rate of a site that exists need not be given again."""
    site_settings.set_rate("a.example", "1/10s", burst=5)
    assert sites("set", "a.example", "--max-concurrency", "2") == (
        "a.example: 1/10s, burst 5, at most 2 at once, running.\n"
    )


def test_what_was_set_can_be_taken_back() -> None:
    """A limit of concurrency is lifted; the grace and the setting for robots.txt go back to their defaults."""
    told = sites("set", "a.example", "1/s", "--max-concurrency", "2", "--grace", "50ms", "--no-obey-robots")
    assert told == "a.example: 1/s, at most 2 at once, grace 0.05 s, does not obey robots.txt, running.\n"
    assert Site.objects.get().grace == timedelta(milliseconds=50)
    told = sites("set", "a.example", "--no-max-concurrency", "--default-grace", "--default-robots")
    assert told == "a.example: 1/s, running.\n"


@pytest.mark.parametrize(("port", "scheme", "other"), [(443, "https", "http"), (80, "http", "https")])
def test_set_says_where_a_site_with_a_default_port_is_not_used(port: int, scheme: str, other: str) -> None:
    """Sites have no scheme: URLs with a scheme's default port belong to the site without a port."""
    assert sites("set", f"a.example:{port}", "1/s") == (
        f"a.example:{port}: 1/s, running.\n"
        f"{scheme} URLs go to the site a.example, also with this port; only {other} URLs with it come here.\n"
    )
    used = {of: request_fetch(f"{of}://a.example:{port}/").site for of in (scheme, other)}
    assert {of: site and site.name for of, site in used.items()} == {scheme: "a.example", other: f"a.example:{port}"}


def test_covering_subdomains_can_be_ended() -> None:
    """`--no-covers-subdomains` takes back what `--covers-subdomains` gave."""
    sites("set", "a.example", "1/s", "--covers-subdomains")
    assert sites("set", "a.example", "1/s", "--no-covers-subdomains") == "a.example: 1/s, running.\n"
    assert not Site.objects.get().covers_subdomains


def test_pause_and_resume_say_what_holds() -> None:
    """A pause holds for a time or until resumed; resuming ends it, and a back-off too."""
    site_settings.set_rate("a.example", "1/s")
    assert sites("pause", "a.example") == "a.example: 1/s, paused until resumed.\n"
    assert sites("pause", "a.example", "--for", "10m").startswith("a.example: 1/s, paused until 2")
    assert 590 < slots.estimate("a.example") <= 600
    site_settings.back_off("a.example", 100)
    assert sites("resume", "a.example") == "a.example: 1/s, running.\n"
    assert slots.estimate("a.example") <= 0


@pytest.mark.parametrize("arguments", [["pause"], ["pause", "--for", "10m"], ["resume"], ["set", "--burst", "2"]])
def test_a_covered_host_is_refused_with_the_site_that_it_shares(arguments: list[str]) -> None:
    """A whole site is paused because of one host only if that site is named."""
    site_settings.set_rate("a.example", "1/s", covers_subdomains=True)
    with pytest.raises(CommandError, match=r"'www\.a\.example': it is covered by a\.example\. Name that one\."):
        sites(arguments[0], "www.a.example", *arguments[1:])
    assert [(site["site"], site["state"], site["burst"]) for site in listed()] == [("a.example", "idle", 1)]


# --- show ---------------------------------------------------------------------------------------------------------


def test_a_site_is_shown_on_one_screen(settings: Settings) -> None:
    """How it is set, its state and until when, its backlog, robots.txt, the last error of what waits, the forecast."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate("a.example", "1/2s", burst=3, max_concurrency=2)
    first, second = request_fetches(["http://a.example/1", "http://a.example/2"])
    Fetch.objects.filter(pk=second.pk).update(error="\x1b[31mConnection refused (attempt 1 of 5)")
    site_settings.pause("a.example", timedelta(hours=1))
    known("http://a.example", RobotsState.RULES, rules="User-agent: *")
    told = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in sites("show", "A.Example").splitlines()[1:])
    assert (told["rate"], told["settings"]) == ("1/2s", "burst 3, at most 2 at once")
    assert told["state"].startswith("paused until 2")
    assert told["backlog"] == f"{Fetch.objects.filter(state='queued').count()} queued"
    assert told["robots.txt"].startswith("http://a.example: rules until 2")
    assert told["last error"] == "\N{REPLACEMENT CHARACTER}[31mConnection refused (attempt 1 of 5)"
    assert told["forecast"].startswith("A new request would start in ")
    data = json.loads(sites("show", "a.example", "--json"))
    assert (data["site"], data["rate"], data["state"], data["burst"]) == ("a.example", "1/2s", "paused", 3)
    assert data["last_error"].endswith("Connection refused (attempt 1 of 5)")
    assert data["forecast"]["queued"] == 3
    assert first.pk < second.pk


def test_what_is_not_known_of_a_site_is_said() -> None:
    """It is not left out: a new user sees that there is nothing."""
    site_settings.set_rate("a.example", "1/s")
    told = sites("show", "a.example")
    assert "not known; it is asked for before the first fetch that has to obey it" in told
    assert re.search(r"last error +none", told)


def test_starts_out_of_time_are_said_of_a_site_that_had_some() -> None:
    """How many there were, and when the last one was; in the list only for machines."""
    site_settings.set_rate("a.example", "1/s")
    assert "out of time" not in sites("show", "a.example")
    at = datetime(2026, 11, 26, 8, 30, tzinfo=UTC)
    for starts, said in ((1, "1 start"), (1_234, "1,234 starts")):
        Site.objects.update(starts_out_of_time=starts, out_of_time_at=at)
        assert f"out of time  {said}, the last at 2026-11-26 08:30:00 UTC" in sites("show", "a.example")
        for data in (listed()[0], json.loads(sites("show", "a.example", "--json"))):
            assert (data["starts_out_of_time"], data["out_of_time_at"]) == (starts, at.isoformat())


@pytest.mark.parametrize("action", ["set", "pause", "resume"])
def test_a_change_for_machines_says_what_holds_now(action: str) -> None:
    """A part of the object of `show --json`."""
    site_settings.set_rate("a.example", "1/s")
    changed, shown = (json.loads(sites(of, "a.example", "--json")) for of in (action, "show"))
    assert changed["site"] == "a.example"
    assert changed.items() <= {name: shown[name] for name in changed}.items()


# --- names and rates as they were written ----------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["1/2s", "60/m", "1/60s", "3/min", " 1 / 2 S "])
def test_a_rate_comes_back_as_it_was_written(written: str) -> None:
    """In every command, although other spellings mean the same interval."""
    spelled = "".join(written.split()).lower()
    assert sites("set", "a.example", written) == f"a.example: {spelled}, running.\n"
    assert sites("set", "a.example", "--burst", "2").startswith(f"a.example: {spelled}, ")
    assert listed()[0]["rate"] == spelled
    assert f" {spelled} " in sites()
    assert sites("forecast", "a.example").startswith(f"a.example: {spelled}, ")
    assert json.loads(sites("forecast", "a.example", "--json"))["rate"] == spelled


def test_a_site_of_a_fetch_has_the_default_rate_as_that_is_written(settings: Settings) -> None:
    """Even if the forecast is about a site that does not exist yet."""
    settings.WEIR_DEFAULT_RATE = "2/20s"
    assert sites("forecast", "a.example").startswith("a.example: 2/20s, no site yet")
    request_fetch("http://a.example/")
    assert listed()[0]["rate"] == "2/20s"


def test_a_rate_that_was_not_written_is_spelled() -> None:
    """An interval that was set directly in the row, or that robots.txt asks for."""
    site_settings.set_rate("a.example", "1/2s")
    Site.objects.update(interval=timedelta(seconds=3))
    assert listed()[0]["rate"] == "20/m"
    Site.objects.update(interval=timedelta(seconds=2))
    site_settings.set_crawl_delay(Site.objects.get().pk, timedelta(seconds=6))
    assert "10/m (robots.txt)" in sites()


@pytest.mark.parametrize("action", ["show", "pause", "resume", "delete"])
def test_an_unknown_name_is_refused_with_where_the_others_stand(action: str) -> None:
    with pytest.raises(CommandError, match=r"There is no site 'api\.exmaple\.com': `manage\.py sites` lists those"):
        sites(action, "api.exmaple.com")


def test_several_sites_are_deleted_and_the_others_are_said_in_the_end() -> None:
    """Each is deleted by itself."""
    for name in ("a.example", "b.example", "c.example"):
        site_settings.set_rate(name, "1000/s")
    site_settings.pause("b.example")
    output = StringIO()
    with pytest.raises(CommandError) as refusal:
        call_command("sites", "delete", "a.example", "b.example", "c.example", "d.test", stdout=output)
    assert output.getvalue() == "a.example is deleted.\nc.example is deleted.\n"
    stays, unknown = str(refusal.value).splitlines()
    assert stays.startswith("b.example stays: it is paused.")
    assert unknown.startswith("There is no site 'd.test'")


def test_a_pause_takes_seconds() -> None:
    """A number without a unit means seconds, as in settings."""
    site_settings.set_rate("a.example", "1/s")
    sites("pause", "a.example", "--for", "600")
    assert 590 < slots.estimate("a.example") <= 600


# --- forecast -----------------------------------------------------------------------------------------------------


def test_a_forecast_is_two_sentences() -> None:
    """The rate and the queue; then when a new request would start, and when the backlog clears."""
    site_settings.set_rate("a.example", "1/10s")
    request_fetches([f"http://a.example/{number}" for number in range(1_204)])
    told = sites("forecast", "a.example")
    assert told.startswith("a.example: 1/10s, 1,204 queued. A new request would start in 3h 25m (at ")
    assert re.search(r" UTC\); the backlog would be cleared in 3h 25m \(at \d\d:\d\d:\d\d UTC\)\.\n$", told)


def test_a_forecast_counts_more_requests() -> None:
    """With `--add`, it says how long they would take; a time that is farther away has a date."""
    site_settings.set_rate("a.example", "1/h")
    told = sites("forecast", "A.Example", "--add", "100")
    assert told.startswith("a.example: 1/h, 0 queued. A new request would start in 0.1s (at ")
    assert re.search(r"; with 100 more, the backlog would be cleared in 4d 03h \(at \d{4}-\d\d-\d\d ", told)


@pytest.mark.parametrize(
    ("arrange", "sentences"),
    [
        (
            lambda: site_settings.pause("a.example"),
            ["a.example: 1/10s, paused until resumed, 1 queued. Nothing starts before.\n"],
        ),
        (
            lambda: site_settings.pause("a.example", timedelta(hours=10, minutes=30, seconds=45)),
            ["a.example: 1/10s, paused for 10h 30m, 1 queued. A new request would start in 10h 30m (at "],
        ),
        (lambda: site_settings.back_off("a.example", 7_530), ["1/10s, backed off for 2h 05m, 1 queued. "]),
        (
            lambda: site_settings.set_rate("a.example", "1/10s", max_concurrency=2),
            ["1/10s, at most 2 at once, 1 queued. ", "All of this is later where the site takes long to answer."],
        ),
        (
            lambda: request_fetch("http://a.example/", not_before=datetime(2100, 1, 1, tzinfo=UTC)),
            ["1/10s, 2 queued. ", "Not due until then, and not counted: 1."],
        ),
    ],
)
def test_a_forecast_says_what_it_rests_on(arrange: Callable[[], object], sentences: list[str]) -> None:
    """A pause, a back-off, a limit, and what is left out."""
    site_settings.set_rate("a.example", "1/10s")
    request_fetch("http://a.example/")
    arrange()
    told = sites("forecast", "a.example")
    for sentence in sentences:
        assert sentence in told


def test_a_forecast_names_the_site_and_whether_it_exists(settings: Settings) -> None:
    """A host may be covered by another, or have no site yet; asking creates none."""
    site_settings.set_rate("a.example", "1/10s", covers_subdomains=True)
    assert sites("forecast", "www.a.example").startswith("a.example (which covers www.a.example): 1/10s, 0 queued. ")
    settings.WEIR_OBEY_ROBOTS = True
    told = sites("forecast", "b.example")
    assert told.startswith("b.example: 1/s, no site yet, 0 queued. A new request would start in 1.1s (at ")
    assert told.endswith(". It waits for the site's robots.txt, which is asked for first.\n")
    assert [site["site"] for site in listed()] == ["a.example"]


def test_a_forecast_for_machines_has_all_fields() -> None:
    """`--json` prints one object, in units named by the fields; a time that never comes is null."""
    site_settings.set_rate("a.example", "1/10s")
    request_fetch("http://a.example/")
    told = json.loads(sites("forecast", "a.example", "--add", "2", "--json"))
    assert told.pop("now").endswith("+00:00")
    assert 10 < told.pop("starts_in_s") < told.pop("clears_in_s") < 25
    assert told == {
        "site": "a.example",
        "is_new": False,
        "rate": "1/10s",
        "is_supposed": False,
        "max_concurrency": None,
        "state": "running",
        "is_silent": False,
        "unreachable": None,
        "held_for_s": 0.0,
        "queued": 1,
        "not_due": 0,
        "ahead": 1,
        "asks_robots": False,
        "robots_held_for_s": 0.0,
        "robots_error": None,
        "added": 2,
    }
    site_settings.pause("a.example")
    told = json.loads(sites("forecast", "a.example", "--json"))
    assert (told["held_for_s"], told["starts_in_s"], told["clears_in_s"]) == (None, None, None)


def test_a_forecast_says_when_robots_txt_is_in_the_way(settings: Settings) -> None:
    """Which one, why, and when it is asked for again: for people and for machines."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate("a.example", "1/10s")
    again = database_now() + timedelta(seconds=50)
    error = "the site answered 503"
    known("https://a.example", RobotsState.UNREACHABLE, error=error, refresh_at=again, expires_at=again)
    told = sites("forecast", "a.example")
    assert "robots.txt cannot be read (https://a.example: the site answered 503): nothing is fetched before" in told
    assert re.search(r" before it is asked for again, in \d\d(\.\d)?s \(at \d\d:\d\d:\d\d UTC\)\.\n$", told)
    data = json.loads(sites("forecast", "a.example", "--json"))
    assert data["robots_error"] == "https://a.example: the site answered 503"
    assert 40 < data["robots_held_for_s"] <= 50 < data["starts_in_s"]


def test_a_forecast_for_ages_has_no_date() -> None:
    """A time beyond the calendar is given in days."""
    site_settings.set_rate("a.example", "1/366d")
    assert sites("forecast", "a.example", "--add", "1000000").endswith("would be cleared in 365999636d 21h.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set", "a.example", "fast"], "'fast' is not a rate: write COUNT/PERIOD"),
        (["set", "https://a.example/", "1/s"], "does not name a site: write its host"),
        (["set", "*.example.com", "1/s"], "'*.example.com' is a pattern, which names no site: "),
        (["set", "a.example", "1/s", "--burst", "0"], "argument --burst: must be a whole number above 0, not '0'"),
        (["set", "a.example", "1/s", "--burst", "abc"], "argument --burst: must be a whole number above 0, not 'abc'"),
        (["set", "a.example", "1/s", "--burst", "10001"], "burst must be at most 10000, not 10001"),
        (["set", "a.example", "1/s", "--max-concurrency", "-3"], "--max-concurrency: must be a whole number above 0"),
        (["set", "a.example", "1/s", "--burst", "99999999999"], "must be at most 2147483647, not '99999999999'"),
        (["set", "a.example", "--burst", "2"], "There is no site 'a.example'"),
        (["set", "a.example"], "A rate, such as 3/s, would create it."),
        (["set", "a.example", "1/s", "--grace", "14ms"], "grace must be between 15 ms and one day"),
        (["set", "a.example", "1/s", "--grace", "25h"], "grace must be between 15 ms and one day"),
        (["set", "a.example", "1/s", "--grace", "short"], "'short' is not a length of time: write 30 (seconds), 50ms"),
        (["set", "a.example", "1/s", "--grace", "1s", "--default-grace"], "not allowed with argument"),
        (["set", "a.example", "1/s", "--max-concurrency", "1", "--no-max-concurrency"], "not allowed with argument"),
        (["set", "a.example", "1/s", "--obey-robots", "--default-robots"], "not allowed with argument"),
        (["set", "a.example", "1/s", "--refusing", "403", "--default-refusing"], "not allowed with argument"),
        (["set", "a.example", "1/s", "--refusing", "403;999"], "must be statuses such as 403,999, not '403;999'"),
        (["set", "a.example", "1/s", "--refusing", "200"], "refusing must be statuses from 400 to 999"),
        (["set", "a.example", "1/s", "--header", "Accept"], "must be a header such as 'Accept: application/json'"),
        (["set", "a.example", "1/s", "--header", "A: 1", "--header", "A: 2"], "each header once, but A is there twice"),
        (["set", "a.example", "1/s", "--header", "Host: b.example"], "must not have Host: belongs to the connection"),
        (["set", "a.example", "1/s", "--header", "Authorization: Bearer x"], "must name the secret of Authorization"),
        (["pause", "nowhere.example"], "There is no site 'nowhere.example'"),
        (["resume", "nowhere.example"], "There is no site 'nowhere.example'"),
        (["pause", "nowhere.example", "--for", "soon"], "'soon' is not a length of time"),
        (["pause", "nowhere.example", "--for", ""], "'' is not a length of time"),
        (["list", "--limit", "-1"], "argument --limit: must be a whole number from 0 up, not '-1'"),
        (["forecast", "https://a.example/"], "does not name a site: write its host"),
        (["forecast", "a.example", "--add", "-1"], "argument --add: must be a whole number from 0 up, not '-1'"),
        (["forecast", "a.example", "--add", "1000001"], "add must be between 0 and 1,000,000, not 1000001."),
    ],
)
def test_bad_input_is_refused_in_a_sentence_and_changes_nothing(arguments: list[str], sentence: str) -> None:
    """Bad input ends as a CommandError with the library's own words; no site is created."""
    with pytest.raises(CommandError) as refusal:
        sites(*arguments)
    assert sentence in str(refusal.value)
    assert not Site.objects.exists()
