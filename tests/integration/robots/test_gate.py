"""The gate: what has been claimed is requested only where the robots.txt of its origin lets it through."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from tests.integration.conftest import Message, database_now, dispatch_message
from tests.integration.robots.conftest import HOUR, ORIGIN, PAGE, ROBOTS, RULES, claimed, known, robots_fetches, stored
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.claim import successors_of
from weir.workers.fetches.jobs import Disallowed, Event, Job, Snoozed
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots import gate as robots_gate
from weir.workers.fetches.robots import rules as robots_rules
from weir.workers.fetches.robots import trials as robots_trials
from weir.workers.fetches.robots.files import RECHECK_AFTER, RobotsFiles
from weir.workers.fetches.robots.rules import Rules, origin_of
from weir.workers.fetches.robots.trials import Allowance

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def at_the_gate(files: RobotsFiles, *urls: str) -> tuple[list[Job], list[Event]]:
    """Claim fetches of these URLs, and pass them through the gate."""
    request_fetches(urls)
    return robots_gate.admit(claimed(), files)


def turned_away(files: RobotsFiles, url: str = PAGE) -> Fetch:
    """Return a fetch after the gate turned it away."""
    jobs, [event] = at_the_gate(files, url)
    assert jobs == []
    stored(event)
    return Fetch.objects.get(is_robots=False)


def test_what_the_rules_allow_goes_on_and_what_they_disallow_does_not(files: RobotsFiles) -> None:
    """The order stays, and none is lost."""
    known(rules=RULES)
    jobs, events = at_the_gate(files, f"{ORIGIN}/a", f"{ORIGIN}/private/b", f"{ORIGIN}/c")
    assert [job.url for job in jobs] == [f"{ORIGIN}/a", f"{ORIGIN}/c"]
    assert [event.job.url for event in events] == [f"{ORIGIN}/private/b"]


def test_a_disallowed_fetch_fails_at_once(files: RobotsFiles) -> None:
    """It says why; nothing was requested, so no attempt is counted and its slot is given back."""
    known(rules=RULES)
    fetch = turned_away(files, f"{ORIGIN}/private/")
    assert (fetch.state, fetch.error) == (FetchState.FAILED, f"robots.txt of {ORIGIN} disallows it")
    assert (fetch.attempts, fetch.started_at, fetch.status_code) == (0, None, None)
    assert not Slot.objects.filter(released_at=None).exists()


def test_the_group_that_names_weir_counts(files: RobotsFiles, settings: Settings) -> None:
    """Weir's product token is what WEIR_FETCH_USER_AGENT begins with."""
    settings.WEIR_FETCH_USER_AGENT = "ShopBot/2.0 (+https://shop.example/bot)"
    known(rules="User-agent: shopbot\nDisallow: /\n\nUser-agent: *\nAllow: /\n")
    assert turned_away(files).state == FetchState.FAILED


def test_without_a_robots_txt_everything_goes_on(files: RobotsFiles) -> None:
    """A site that has none has nothing to disallow."""
    known(state=RobotsState.ALLOWED)
    jobs, events = at_the_gate(files, PAGE, f"{ORIGIN}/private/")
    assert (len(jobs), events) == (2, [])


def test_what_is_not_known_waits_a_moment(files: RobotsFiles, messages: list[Message]) -> None:
    """The fetch is queued again without an attempt, and its robots.txt is asked for."""
    known()
    request_fetch(PAGE)
    jobs = claimed()
    RobotsFile.objects.all().delete()
    messages.clear()
    let_through, [event] = robots_gate.admit(jobs, files)
    assert let_through == []
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]
    assert dispatch_message("site.example") in messages
    before = database_now()
    stored(event)
    fetch, wait = Fetch.objects.get(is_robots=False), timedelta(seconds=robots_gate.WAIT)
    assert (fetch.state, fetch.attempts, fetch.error) == (FetchState.QUEUED, 0, f"waits for {ROBOTS}")
    assert before + wait <= fetch.not_before <= database_now() + wait
    assert not Slot.objects.filter(released_at=None).exists()


def test_what_is_not_known_any_more_waits_as_well(files: RobotsFiles) -> None:
    """Rules that expired let no fetch through."""
    now = database_now()
    known(refresh_at=now - HOUR, expires_at=now - HOUR)
    request_fetch(PAGE)
    [robots] = robots_fetches()
    robots.delete()
    jobs, events = robots_gate.admit(claimed(), files)
    assert (jobs, len(events), len(robots_fetches())) == ([], 1, 1)


def test_while_a_robots_txt_cannot_be_read_attempts_are_counted(files: RobotsFiles) -> None:
    """The fetch comes back after that has expired, and says why."""
    before = database_now()
    expires_at = before + timedelta(seconds=40)
    known(state=RobotsState.UNREACHABLE, error="the site answered 503", refresh_at=expires_at, expires_at=expires_at)
    fetch = turned_away(files)
    assert (fetch.state, fetch.attempts) == (FetchState.QUEUED, 1)
    assert fetch.error == f"robots.txt of {ORIGIN} cannot be read: the site answered 503"
    elapsed = database_now() - before
    assert timedelta(seconds=0.9) < fetch.not_before - expires_at < timedelta(seconds=1.1) + elapsed
    assert not Slot.objects.filter(released_at=None).exists()


def test_a_dead_site_s_fetches_fail_with_the_reason(files: RobotsFiles) -> None:
    """No fetch waits for ever for a robots.txt."""
    known(state=RobotsState.UNREACHABLE, error="no answer")
    request_fetch(PAGE, max_attempts=1)
    _, [event] = robots_gate.admit(claimed(), files)
    stored(event)
    fetch = Fetch.objects.get(is_robots=False)
    assert (fetch.state, fetch.attempts) == (FetchState.FAILED, 1)
    assert fetch.error == f"robots.txt of {ORIGIN} cannot be read: no answer (attempt 1 of 1)"


def test_what_is_nearly_old_still_lets_through_and_is_refreshed(files: RobotsFiles) -> None:
    """No fetch waits for rules that were asked for again in time."""
    known(rules=RULES)
    request_fetch(PAGE)
    RobotsFile.objects.update(refresh_at=database_now() - timedelta(seconds=1))
    jobs, events = robots_gate.admit(claimed(), files)
    assert (len(jobs), events) == (1, [])
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]


def test_a_robots_txt_itself_needs_none(files: RobotsFiles) -> None:
    """It is what the others wait for."""
    jobs, events = at_the_gate(files, PAGE)
    assert ([job.url for job in jobs], events) == ([ROBOTS], [])


def test_after_a_redirect_its_target_s_robots_txt_counts(files: RobotsFiles) -> None:
    """Every hop is claimed anew, and asks the origin that it leads to."""
    known()
    known("https://www.site.example", rules="User-agent: *\nDisallow: /\n")
    request_fetch(PAGE)
    Fetch.objects.update(hop_url="https://www.site.example/page", redirects=1)
    jobs, [event] = robots_gate.admit(claimed(), files)
    stored(event)
    assert (jobs, Fetch.objects.get().error) == ([], "robots.txt of https://www.site.example disallows it")


@pytest.mark.parametrize("first", ["robots.txt", "page"])
def test_a_successor_obeys_for_itself(first: str) -> None:
    """A page in the place of a robots.txt has to ask it, and a robots.txt in that of a page has not."""
    page = request_fetch(PAGE)
    [robots] = robots_fetches()
    cancelled, successor = (robots, page) if first == "robots.txt" else (page, robots)
    Fetch.objects.filter(pk=successor.pk).update(not_before=database_now() + HOUR)
    [job] = claimed()
    assert (job.fetch_id, job.obeys_robots) == (cancelled.pk, cancelled == page)
    Slot.objects.update(start_time=database_now() + HOUR, use_until=database_now() + 2 * HOUR)
    Fetch.objects.filter(pk=successor.pk).update(not_before=database_now())
    assert cancel(cancelled.pk)
    [(taken, _)] = successors_of([job])
    assert (taken.fetch_id, taken.is_robots, taken.obeys_robots) == (
        successor.pk, successor == robots, successor == page,
    )  # fmt: skip


@pytest.mark.parametrize("of", ["setting", "site"])
def test_where_robots_txt_is_not_obeyed_everything_goes_on(files: RobotsFiles, settings: Settings, of: str) -> None:
    """No look, no question: neither with the setting off, nor for a site that is set so."""
    known(rules="User-agent: *\nDisallow: /\n")
    if of == "setting":
        settings.WEIR_OBEY_ROBOTS = False
    else:
        site_settings.set_rate("site.example", "10/s", obeys_robots=False)
        Site.objects.update(recalled_at=None)  # or dispatch leaves the site alone for half a second
    request_fetch(PAGE)
    jobs = claimed()
    with CaptureQueriesContext(connection) as queries:
        let_through, events = robots_gate.admit(jobs, files)
    assert (len(let_through), events, len(queries)) == (1, [], 0)


def test_jobs_outlive_a_database_that_does_not_answer(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are claimed by then, and must not be dropped: they wait, without an attempt."""
    known()
    request_fetch(PAGE)
    jobs = claimed()

    def away(*_arguments: object) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(files, "known", away)
    let_through, [event] = robots_gate.admit(jobs, files)
    stored(event)
    assert (let_through, Fetch.objects.get().state, Fetch.objects.get().attempts) == ([], FetchState.QUEUED, 0)


def test_jobs_outlive_rules_that_cannot_be_applied(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the parser does not expect counts an attempt of the one fetch, and holds up none of the others."""
    known(rules=RULES)
    monkeypatch.setattr(Rules, "trial", lambda _rules, url: (1 / ("odd" not in url) for _ in range(1)))
    jobs, [event] = at_the_gate(files, f"{ORIGIN}/a", f"{ORIGIN}/odd", f"{ORIGIN}/b")
    stored(event)
    assert [job.url for job in jobs] == [f"{ORIGIN}/a", f"{ORIGIN}/b"]
    fetch = Fetch.objects.get(url__endswith="odd")
    assert (fetch.state, fetch.attempts) == (FetchState.QUEUED, 1)
    assert fetch.error == f"robots.txt of {ORIGIN} cannot be applied: ZeroDivisionError"


def test_other_jobs_outlive_rules_that_cannot_be_parsed(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one origin has written does not hold up the rest of a claim, and is read again in a minute."""
    known(rules=RULES)
    known("https://odd.example", rules="odd")

    def stumbling(text: str, product: str) -> Rules:
        assert text != "odd"
        return Rules(text, product)

    monkeypatch.setattr(robots_files, "Rules", stumbling)
    jobs, [event] = at_the_gate(files, PAGE, "https://odd.example/page")
    assert [job.url for job in jobs] == [PAGE]
    before = database_now()
    stored(event)
    fetch = Fetch.objects.get(url="https://odd.example/page")
    assert (fetch.state, fetch.attempts) == (FetchState.QUEUED, 1)
    assert fetch.error == "robots.txt of https://odd.example cannot be read: it cannot be parsed: AssertionError"
    assert timedelta(seconds=50) < fetch.not_before - before < timedelta(seconds=2 * RECHECK_AFTER)


# Rules that no claim has done with: each tried rule is a step, and there is nothing left for more than the first.
SLOW = "User-agent: *\nDisallow: /*private\n" + "".join(f"Disallow: *{number:040}\n" for number in range(30))


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let trials go on only as long as this says so."""
    left = [False]
    monkeypatch.setattr(robots_rules, "STEP", 0)
    monkeypatch.setattr(Allowance, "is_left", lambda _allowance: left[0])
    return left


@pytest.mark.usefixtures("nothing_left")
def test_rules_that_take_long_to_apply_hold_up_their_own_fetches_only(files: RobotsFiles) -> None:
    """These come again, without an attempt and in their places, and say why; those of other origins go on."""
    known(rules=SLOW)
    known("https://other.example", rules=RULES)
    jobs, events = at_the_gate(files, f"{ORIGIN}/1", f"{ORIGIN}/2", "https://other.example/1", f"{ORIGIN}/3")
    assert [job.url for job in jobs] == ["https://other.example/1"]
    assert [event.job.url for event in events] == [f"{ORIGIN}/{number}" for number in (1, 2, 3)]
    due = Fetch.objects.get(url=f"{ORIGIN}/2").not_before
    stored(events[1])
    fetch = Fetch.objects.get(url=f"{ORIGIN}/2")
    assert (fetch.state, fetch.attempts, fetch.not_before) == (FetchState.QUEUED, 0, due)
    assert fetch.error == f"waits, as {ROBOTS} takes long to apply"


def test_many_sites_whose_rules_take_a_step_hold_up_no_others(
    files: RobotsFiles, nothing_left: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim has a bounded time for all steps that are free: sites with few rules come first, the others in turn."""
    origins = [f"https://{number}.example" for number in range(4)]
    for origin in origins:
        known(origin, rules=SLOW.replace("/*", "/"))
    known("https://other.example", rules=RULES)
    request_fetches([*(f"{origin}/1" for origin in origins), "https://other.example/1"])
    jobs = claimed()
    files.known({origin_of(job.url): job.site_id for job in jobs})
    monkeypatch.setattr(robots_trials, "FREE_S", 1e-9)  # which the first step takes
    let_through, events = robots_gate.admit(jobs, files)
    assert [job.url for job in let_through] == ["https://other.example/1"]
    assert {type(event) for event in events} == {Snoozed}
    nothing_left[0] = True
    let_through, events = robots_gate.admit(jobs, files)
    assert (len(let_through), events) == (5, [])


@pytest.mark.usefixtures("nothing_left")
def test_rules_that_take_too_long_to_apply_fail_their_own_fetch(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For good, as they would take as long again; those of other origins go on."""
    monkeypatch.setattr(robots_trials, "LONGEST_S", 0.0)
    known(rules=SLOW)
    known("https://other.example", rules=RULES)
    jobs, [event] = at_the_gate(files, f"{ORIGIN}/1", "https://other.example/1")
    assert [job.url for job in jobs] == ["https://other.example/1"]
    stored(event)
    fetch = Fetch.objects.get(url=f"{ORIGIN}/1")
    assert (fetch.state, fetch.error) == (
        FetchState.FAILED,
        f"robots.txt of {ORIGIN} takes too long to apply to this URL",
    )


@pytest.mark.parametrize(("path", "is_allowed"), [("public", True), ("private", False)])
def test_rules_that_take_long_to_apply_are_applied_all_the_same(
    files: RobotsFiles, nothing_left: list[bool], path: str, is_allowed: bool
) -> None:
    """A later claim goes on where the last one stopped."""
    known(rules=SLOW)
    [event] = at_the_gate(files, f"{ORIGIN}/{path}")[1]
    assert isinstance(event, Snoozed)
    nothing_left[0] = True
    jobs, events = robots_gate.admit([event.job], files)
    assert ([job.url for job in jobs], len(events)) == ([event.job.url] * is_allowed, 1 - is_allowed)
    assert all(isinstance(event, Disallowed) for event in events)
