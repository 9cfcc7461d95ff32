"""`manage.py fetches`: which fetches it retries and cancels, what it says about them, and how it refuses."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F
from pytest_django import Settings

from tests.integration.conftest import database_now
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


def fetches(*arguments: object) -> str:
    """Return what the command prints."""
    output = StringIO()
    call_command("fetches", *map(str, arguments), stdout=output)
    return output.getvalue()


@pytest.fixture
def failed() -> list[int]:
    """Make four failures of two sites, for several reasons, an hour apart; the last was a minute ago."""
    why = [
        ("a.example", 503, "the site answered 503 (attempt 5 of 5)"),
        ("a.example", None, "Connection refused (attempt 5 of 5)"),
        ("b.example", 503, "the site answered 503 (attempt 1 of 1)"),
        ("b.example", 429, "the site answered 429 (attempt 5 of 5)"),
    ]
    ids = [fetch.pk for fetch in request_fetches([f"http://{site}/{number}" for number, (site, *_) in enumerate(why)])]
    for pk, (_, code, error), age in zip(ids, why, (181, 121, 61, 1), strict=True):
        ended = database_now() - timedelta(minutes=age)
        Fetch.objects.filter(pk=pk).update(state=FetchState.FAILED, status_code=code, error=error, finished_at=ended)
    return ids


def queued() -> list[int]:
    return list(Fetch.objects.filter(state=FetchState.QUEUED).order_by("pk").values_list("pk", flat=True))


# --- retry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (["--all"], [0, 1, 2, 3]),
        (["--site", "A.Example."], [0, 1]),
        (["--status", "503"], [0, 2]),
        (["--error", "connection REFUSED"], [1]),
        (["--since", "2h"], [2, 3]),
        (["--site", "b.example", "--status", "503", "--since", "1d"], [2]),
        (["--all", "--limit", "3"], [0, 1, 2]),
        (["--status", "503", "--limit", "1"], [0]),
        (["--error", "nothing of the kind"], []),
    ],
)
def test_a_filter_chooses_which_failed_ones_are_retried(
    arguments: list[str], places: list[int], failed: list[int]
) -> None:
    """All given filters must hold; the other fetches stay failed."""
    told = fetches("retry", *arguments)
    assert queued() == [failed[place] for place in places]
    number = len(places)
    assert told == f"{number} {'fetch' if number == 1 else 'fetches'} queued again.\n"


def test_ids_choose_which_failed_ones_are_retried(failed: list[int]) -> None:
    """The named ones, and no others."""
    assert fetches("retry", failed[2], failed[0], failed[2]) == "2 fetches queued again.\n"
    assert queued() == [failed[0], failed[2]]


def test_what_is_named_but_has_not_failed_is_said_in_the_end(failed: list[int]) -> None:
    """The rest is retried; the command fails, because not everything was done."""
    waiting = request_fetch("http://a.example/").pk
    with pytest.raises(CommandError) as refusal:
        fetches("retry", waiting, failed[0], waiting + 1)
    assert str(refusal.value) == f"Not failed, or not there: {waiting}, {waiting + 1}."
    assert queued() == [failed[0], waiting]


def test_what_stays_failed_is_told_with_its_reason() -> None:
    """Texts that are not URLs, and URLs with an unfinished fetch, are counted apart."""
    request_fetches(["nonsense", "ftp://a.example/"])
    first = request_fetch("http://a.example/", dedupe=True)
    Fetch.objects.filter(pk=first.pk).update(state=FetchState.FAILED, error="lost", finished_at=database_now())
    request_fetch("http://a.example/", dedupe=True)
    assert fetches("retry", "--all").splitlines() == [
        "0 fetches queued again.",
        "2 stay failed: no URL that Weir fetches.",
        "1 stays failed: the URL has an unfinished fetch already (dedupe).",
    ]
    told = json.loads(fetches("retry", "--all", "--json"))
    none = {"queued": 0, "robots_files": 0, "access_tokens": 0, "made_once": 0, "not_failed": []}
    assert told == {**none, "not_urls": 2, "already_unfinished": 1}


@pytest.mark.parametrize("named", [True, False], ids=["by its id", "among others"])
def test_a_robots_txt_stays_failed_and_that_is_said(named: bool, settings: Settings) -> None:
    """Weir asks for it again by itself; an operator can have it asked for sooner in the list of robots.txt files."""
    settings.WEIR_OBEY_ROBOTS = True
    request_fetch("http://a.example/")
    robots = Fetch.objects.get(is_robots=True)
    Fetch.objects.update(state=FetchState.FAILED, error="lost", finished_at=database_now())
    sentence = "1 stays failed: robots.txt, which Weir asks for again when a fetch needs it."
    if named:
        assert fetches("retry", robots.pk).splitlines() == ["0 fetches queued again.", sentence]
    else:
        assert fetches("retry", "--all").splitlines() == ["1 fetch queued again.", sentence]
    assert Fetch.objects.get(pk=robots.pk).state == FetchState.FAILED


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            [],
            (
                "Say which: IDs, --site, --status, --error, --since, --batch, --share, --reference; or --all "
                "for every failed fetch."
            ),
        ),
        (["--error", ""], "Say which: IDs"),
        (["--error", "refus\udce9"], "argument --error: it must be text in UTF-8"),
        (["--error", "refused\0"], "argument --error: it must not contain NUL"),
        (["--site", "a.ex\udce9mple"], "'a.ex\\udce9mple' does not name a site"),
        (["--since", "2\udce9"], "'2\\udce9' is not a length of time"),
        (["--limit", "5"], "Say which: IDs"),
        (["1", "--site", "a.example"], "Give IDs, or say which fetches are meant: not both."),
        (["1", "--all"], "not both"),
        (["1", "--limit", "5"], "not both"),
        (["0"], "argument ID: must be a whole number above 0, not '0'"),
        (["99999999999999999999"], "argument ID: must be at most 9223372036854775807"),
        (["--all", "--limit", "0"], "argument --limit: must be a whole number above 0, not '0'"),
        (["--status", "5xx"], "argument --status: must be a whole number above 0, not '5xx'"),
        (["--site", "nowhere.example"], "There is no site 'nowhere.example'"),
        (["--site", "http://a.example/"], "does not name a site"),
        (
            ["--since", "yesterday"],
            "'yesterday' is not a length of time: write 30 (seconds), 50ms, 90s, 10m, 2h or 1d.",
        ),
    ],
)
def test_a_retry_that_is_not_clear_is_refused_in_a_sentence(
    arguments: list[str], sentence: str, failed: list[int]
) -> None:
    """Nothing is retried by mistake."""
    with pytest.raises(CommandError) as refusal:
        fetches("retry", *arguments)
    assert sentence in str(refusal.value)
    assert queued() == []
    assert Fetch.objects.failed().count() == len(failed)


def test_the_site_of_a_covered_host_is_not_guessed(failed: list[int]) -> None:
    """Fetches belong to sites: the refusal of a covered host names the site that covers it."""
    site_settings.set_rate("a.example", "1/s", covers_subdomains=True)
    with pytest.raises(CommandError, match=r"it is covered by a\.example\. Name that one\."):
        fetches("retry", "--site", "www.a.example")
    assert Fetch.objects.failed().count() == len(failed)


# --- cancel ---------------------------------------------------------------------------------------------------------


def test_fetches_that_wait_are_cancelled() -> None:
    """Each once, however often it is named."""
    first, second, third = (fetch.pk for fetch in request_fetches([f"http://a.example/{n}" for n in range(3)]))
    assert fetches("cancel", first, third, first) == "2 fetches cancelled.\n"
    assert queued() == [second]


def test_what_cannot_be_cancelled_is_said_in_the_end(failed: list[int]) -> None:
    """The rest is cancelled; each that is not has its reason."""
    site_settings.set_rate("a.example", "1/s")
    waiting, held = (fetch.pk for fetch in request_fetches(["http://a.example/1", "http://a.example/2"]))
    Fetch.objects.filter(pk=held).update(state=FetchState.RUNNING, slot_id=1, lease_until=F("created_at"))
    named = [held, waiting, failed[0], held + 1]
    with pytest.raises(CommandError) as refusal:
        fetches("cancel", *named)
    assert str(refusal.value).splitlines() == [
        f"Fetch {held} was not cancelled: it is about to start, or in flight.",
        f"Fetch {failed[0]} had ended already: failed.",
        f"There is no fetch {held + 1}.",
    ]
    assert Fetch.objects.get(pk=waiting).state == FetchState.CANCELLED


def test_the_answer_for_machines_has_all_ids(failed: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints one object; what was refused makes the command fail all the same."""
    waiting = request_fetch("http://a.example/").pk
    output = StringIO()
    with pytest.raises(CommandError):
        call_command("fetches", "cancel", "--json", str(waiting), str(failed[0]), str(waiting + 1), stdout=output)
    assert json.loads(output.getvalue()) == {"cancelled": [waiting], "too_late": [failed[0]], "unknown": [waiting + 1]}
    assert capsys.readouterr().out == ""
