"""The gate: what has been claimed is requested only where the robots.txt of its origin lets it through."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from ratelimit import slots
from ratelimit.models import Site, Slot
from tests.integration.conftest import Message, database_now, poke
from tests.integration.robots.conftest import ORIGIN, PAGE, ROBOTS, answered, claimed, known, robots_fetches, stored
from workers.fetches import robots_files, robots_gate
from workers.fetches.claim import Job
from workers.fetches.enqueue import request_fetch, request_fetches
from workers.fetches.models import Fetch, RobotsFile, RobotsState, State
from workers.fetches.outcomes import Event, GivenBack
from workers.fetches.robots import Rules
from workers.fetches.robots_files import LOOK_AGAIN, RobotsFiles

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

RULES = "User-agent: *\nDisallow: /private\n"
HOUR = timedelta(hours=1)
Elapse = Callable[[float], None]


@pytest.fixture
def files() -> RobotsFiles:
    """Return what a process knows that has just started."""
    return RobotsFiles()


@pytest.fixture
def elapse(monkeypatch: pytest.MonkeyPatch) -> Elapse:
    """Return a function that moves this process' monotonic clock on, for what it knows of robots.txt files."""
    real, ahead = time.monotonic, [0.0]
    monkeypatch.setattr("workers.fetches.robots_files.time.monotonic", lambda: real() + ahead[0])

    def by(seconds: float) -> None:
        ahead[0] += seconds

    return by


def at_the_gate(files: RobotsFiles, *urls: str) -> tuple[list[Job], list[Event]]:
    """Claim fetches of these URLs, and have them sorted."""
    request_fetches(urls)
    return robots_gate.sort(claimed(), files)


def turned_away(files: RobotsFiles, url: str = PAGE) -> Fetch:
    """Return a fetch after the gate turned it away."""
    jobs, [event] = at_the_gate(files, url)
    assert jobs == []
    stored(event)
    return Fetch.objects.get(is_robots=False)


def texts_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each text is added that is parsed."""
    parsed: list[str] = []

    def noting(text: str, product: str) -> Rules:
        parsed.append(text)
        return Rules(text, product)

    monkeypatch.setattr(robots_files, "Rules", noting)
    return parsed


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return a list to which each statement is added, with the number of origins that it is about."""
    statements: list[tuple[str, int]] = []
    real = robots_files._run

    def noting(name: str, parameters: Any) -> Any:
        statements.append((name, len(parameters["origins"])))
        return real(name, parameters)

    monkeypatch.setattr(robots_files, "_run", noting)
    return statements


# --- let through, or not ------------------------------------------------------------------------------------------


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
    assert (fetch.state, fetch.error) == (State.FAILED, f"robots.txt of {ORIGIN} disallows it")
    assert (fetch.attempts, fetch.started_at, fetch.status_code) == (0, None, None)
    slot = Slot.objects.get()
    assert (slot.finished_at, slot.released_at is None) == (None, False)


def test_the_group_that_names_us_counts(files: RobotsFiles, settings: LazySettings) -> None:
    """Our product token is what WEIR_FETCH_USER_AGENT begins with."""
    settings.WEIR_FETCH_USER_AGENT = "ShopBot/2.0 (+https://shop.example/bot)"
    known(rules="User-agent: shopbot\nDisallow: /\n\nUser-agent: *\nAllow: /\n")
    assert turned_away(files).state == State.FAILED


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
    let_through, [event] = robots_gate.sort(jobs, files)
    assert let_through == []
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]
    assert poke("site.example") in messages
    before = database_now()
    stored(event)
    fetch, wait = Fetch.objects.get(is_robots=False), timedelta(seconds=robots_gate.WAIT)
    assert (fetch.state, fetch.attempts, fetch.error) == (State.QUEUED, 0, f"waits for {ROBOTS}")
    assert before + wait <= fetch.not_before <= database_now() + wait
    assert Slot.objects.get().released_at is not None


def test_what_is_not_known_any_more_waits_as_well(files: RobotsFiles) -> None:
    """Rules that expired let nobody through."""
    now = database_now()
    known(refresh_at=now - HOUR, expires_at=now - HOUR)
    request_fetch(PAGE)
    [robots] = robots_fetches()
    robots.delete()
    jobs, events = robots_gate.sort(claimed(), files)
    assert (jobs, len(events), len(robots_fetches())) == ([], 1, 1)


def test_while_a_robots_txt_cannot_be_read_the_attempts_of_who_waits_are_counted(files: RobotsFiles) -> None:
    """The fetch comes back after that has expired, and says why."""
    before = database_now()
    expires_at = before + timedelta(seconds=40)
    known(state=RobotsState.UNREACHABLE, error="the site answered 503", refresh_at=expires_at, expires_at=expires_at)
    fetch = turned_away(files)
    assert (fetch.state, fetch.attempts) == (State.QUEUED, 1)
    assert fetch.error == f"robots.txt of {ORIGIN} cannot be read: the site answered 503"
    elapsed = database_now() - before
    assert timedelta(seconds=0.9) < fetch.not_before - expires_at < timedelta(seconds=1.1) + elapsed
    assert Slot.objects.get().released_at is not None


def test_a_dead_site_s_fetches_fail_with_the_reason(files: RobotsFiles) -> None:
    """Nobody waits for ever for a robots.txt."""
    known(state=RobotsState.UNREACHABLE, error="no answer")
    request_fetch(PAGE, max_attempts=1)
    _, [event] = robots_gate.sort(claimed(), files)
    stored(event)
    fetch = Fetch.objects.get(is_robots=False)
    assert (fetch.state, fetch.attempts) == (State.FAILED, 1)
    assert fetch.error == f"robots.txt of {ORIGIN} cannot be read: no answer (attempt 1 of 1)"


def test_what_is_nearly_old_still_lets_through_and_is_refreshed(files: RobotsFiles) -> None:
    """Nobody waits for rules that were asked for again in time."""
    known(rules=RULES)
    request_fetch(PAGE)
    RobotsFile.objects.update(refresh_at=database_now() - timedelta(seconds=1))
    jobs, events = robots_gate.sort(claimed(), files)
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
    jobs, [event] = robots_gate.sort(claimed(), files)
    stored(event)
    assert (jobs, Fetch.objects.get().error) == ([], "robots.txt of https://www.site.example disallows it")


@pytest.mark.parametrize("of", ["setting", "site"])
def test_where_robots_txt_is_not_obeyed_everything_goes_on(files: RobotsFiles, settings: LazySettings, of: str) -> None:
    """No look, no question: neither with the setting off, nor for a site that is set so."""
    known(rules="User-agent: *\nDisallow: /\n")
    if of == "setting":
        settings.WEIR_OBEY_ROBOTS = False
    else:
        slots.set_rate("site.example", "10/s", obeys_robots=False)
        Site.objects.update(recalled_at=None)  # or dispatch leaves the lane alone for half a second
    request_fetch(PAGE)
    jobs = claimed()
    with CaptureQueriesContext(connection) as queries:
        let_through, events = robots_gate.sort(jobs, files)
    assert (len(let_through), events, len(queries)) == (1, [], 0)


def test_jobs_outlive_a_database_that_does_not_answer(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are ours by then, and must not be dropped: they wait, without an attempt."""
    known()
    request_fetch(PAGE)
    jobs = claimed()

    def away(*_arguments: object) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(files, "known", away)
    let_through, [event] = robots_gate.sort(jobs, files)
    stored(event)
    assert (let_through, Fetch.objects.get().state, Fetch.objects.get().attempts) == ([], State.QUEUED, 0)


def test_jobs_outlive_rules_that_cannot_be_applied(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the parser does not expect counts an attempt of the one fetch, and holds up none of the others."""
    known(rules=RULES)
    monkeypatch.setattr(Rules, "allows", lambda _rules, url: 1 / ("odd" not in url))
    jobs, [event] = at_the_gate(files, f"{ORIGIN}/a", f"{ORIGIN}/odd", f"{ORIGIN}/b")
    stored(event)
    assert [job.url for job in jobs] == [f"{ORIGIN}/a", f"{ORIGIN}/b"]
    fetch = Fetch.objects.get(url__endswith="odd")
    assert (fetch.state, fetch.attempts) == (State.QUEUED, 1)
    assert fetch.error == f"robots.txt of {ORIGIN} cannot be applied: ZeroDivisionError"


def test_other_jobs_outlive_rules_that_cannot_be_parsed(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one origin has written holds up nobody else's claim, and is looked at again in a minute."""
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
    assert (fetch.state, fetch.attempts) == (State.QUEUED, 1)
    assert fetch.error == "robots.txt of https://odd.example cannot be read: it cannot be parsed: AssertionError"
    assert timedelta(seconds=50) < fetch.not_before - before < timedelta(seconds=2 * LOOK_AGAIN)


def test_rules_that_could_not_be_parsed_are_parsed_again(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, elapse: Elapse
) -> None:
    """A process that knows their text has not read it."""
    lanes = {ORIGIN: known(rules=RULES).site_id}
    with monkeypatch.context() as patched:
        patched.setattr(robots_files, "Rules", lambda *_arguments: 1 / 0)
        assert files.known(lanes)[ORIGIN].state == RobotsState.UNREACHABLE
    elapse(LOOK_AGAIN)
    assert files.known(lanes)[ORIGIN].rules is not None


def test_rules_that_take_long_to_apply_are_applied_to_some_of_a_claim(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest comes again, without an attempt and in its place; those of other origins go on."""
    monkeypatch.setattr(robots_gate, "APPLY_FOR", 0.0)
    known(rules=RULES)
    known("https://other.example", rules=RULES)
    jobs, events = at_the_gate(files, f"{ORIGIN}/1", f"{ORIGIN}/2", "https://other.example/1", f"{ORIGIN}/3")
    assert [job.url for job in jobs] == [f"{ORIGIN}/1", "https://other.example/1"]
    assert [event.job.url for event in events] == [f"{ORIGIN}/2", f"{ORIGIN}/3"]
    due = Fetch.objects.get(url=f"{ORIGIN}/2").not_before
    stored(events[0])
    fetch = Fetch.objects.get(url=f"{ORIGIN}/2")
    assert (fetch.state, fetch.attempts, fetch.not_before) == (State.QUEUED, 0, due)
    assert fetch.error == f"waits, as {ROBOTS} takes long to apply"


def test_rules_that_take_long_to_parse_are_parsed_over_several_claims(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim gets on by one at least, and nothing is asked for again."""
    monkeypatch.setattr(robots_files, "PARSE_FOR", 0.0)
    origins = ["https://1.example", "https://2.example", "https://3.example"]
    lanes = {origin: known(origin, rules=RULES).site_id for origin in origins}
    assert [sorted(files.known(lanes)) for _ in origins] == [origins[:1], origins[:2], origins]
    assert robots_fetches() == []


# --- what a process knows -----------------------------------------------------------------------------------------


def test_a_known_origin_costs_no_query(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, elapse: Elapse) -> None:
    """One look serves all messages of a minute; another one does not parse what has not changed."""
    statements, parsed = asked(monkeypatch), texts_parsed(monkeypatch)
    known(rules=RULES)
    lanes = {ORIGIN: Site.objects.get().pk}
    for _ in range(3):
        assert files.known(lanes)[ORIGIN].rules is not None
    elapse(LOOK_AGAIN - 1)
    files.known(lanes)
    assert (statements, len(parsed)) == ([("robots_known", 1)], 1)
    elapse(2)
    assert files.known(lanes)[ORIGIN].rules is not None
    assert (len(statements), len(parsed)) == (2, 1)


def test_unknown_origins_are_looked_up_in_one_query(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with many origins asks once what is known, and once for the rest."""
    statements = asked(monkeypatch)
    origins = [f"https://{number}.example" for number in range(10)]
    lanes = {origin: known(origin).site_id for origin in origins}
    RobotsFile.objects.filter(origin__in=origins[:4]).delete()
    assert len(files.known(lanes)) == 6
    assert statements == [("robots_known", 10), ("robots_ask", 4)]
    assert len(robots_fetches()) == 4


def test_new_rules_are_heard_of_within_a_minute(files: RobotsFiles, elapse: Elapse) -> None:
    """Whichever process fetched them."""
    known(rules=RULES)
    lanes = {ORIGIN: Site.objects.get().pk}
    assert files.known(lanes)[ORIGIN].state == RobotsState.RULES
    known(state=RobotsState.ALLOWED, rules="")
    RobotsFile.objects.update(state=RobotsState.ALLOWED)
    elapse(LOOK_AGAIN)
    assert files.known(lanes)[ORIGIN].state == RobotsState.ALLOWED


def test_what_expires_is_not_used_any_longer(files: RobotsFiles, elapse: Elapse) -> None:
    """Also between two looks: the time is that of this process' monotonic clock."""
    soon = database_now() + timedelta(seconds=30)
    known(expires_at=soon, refresh_at=soon)
    lanes = {ORIGIN: Site.objects.get().pk}
    assert ORIGIN in files.known(lanes)
    RobotsFile.objects.all().delete()
    assert ORIGIN in files.known(lanes)
    elapse(31)
    assert files.known(lanes) == {}


@pytest.mark.parametrize("limit", ["MOST_ORIGINS", "MOST_CHARACTERS"])
def test_what_is_remembered_is_bounded(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """By number and by size; what was used last stays."""
    monkeypatch.setattr(robots_files, limit, 3 if limit == "MOST_ORIGINS" else 3 * len(RULES))
    lanes = {
        f"https://{number}.example": known(f"https://{number}.example", rules=RULES).site_id for number in range(5)
    }
    assert len(files.known(lanes)) == 5, "what one message needs is there for it"
    assert list(files._known) == list(lanes)[2:]
    files.known(dict(list(lanes.items())[2:3]))
    files.known(dict(list(lanes.items())[:1]))
    assert list(files._known) == [list(lanes)[place] for place in (4, 2, 0)]
    assert files._characters == 3 * len(RULES)


# --- while it waits -----------------------------------------------------------------------------------------------


def waiting(files: RobotsFiles, *paths: str) -> list[Job]:
    """Have pages of an origin claimed and turned away whose robots.txt is on its way; returns their jobs."""
    known()
    request_fetches(f"{ORIGIN}/{path}" for path in paths)
    jobs = claimed()
    RobotsFile.objects.all().delete()
    let_through, events = robots_gate.sort(jobs, files)
    assert let_through == []
    for event in events:
        stored(event)
    return jobs


def free() -> None:
    """Let the lanes be free for their next starts."""
    Site.objects.update(next_start=database_now() - HOUR)


def test_a_fetch_that_waited_has_its_place_in_the_queue_again(files: RobotsFiles) -> None:
    """What was asked for earlier is fetched earlier, though the later ones never waited."""
    waiting(files, "1", "2")
    request_fetches([f"{ORIGIN}/3", f"{ORIGIN}/4"])
    free()
    [robots] = claimed()
    answered(robots, 404)
    free()
    assert [job.url for job in claimed()] == [f"{ORIGIN}/{number}" for number in (1, 2, 3, 4)]


def test_it_keeps_its_place_however_often_it_waits(files: RobotsFiles) -> None:
    """The time at which it was due first counts, not that of the last wait."""
    due = [job.fetch_id for job in waiting(files, "1", "2")]
    was_due = list(Fetch.objects.filter(pk__in=due).order_by("pk").values_list("due_since", flat=True))
    Fetch.objects.filter(is_robots=True).update(not_before=database_now() + HOUR)
    Fetch.objects.filter(pk__in=due).update(not_before=database_now())
    free()
    for event in robots_gate.sort(claimed(), files)[1]:
        stored(event)
    again = Fetch.objects.filter(pk__in=due).order_by("pk")
    assert list(again.values_list("due_since", flat=True)) == was_due
    assert min(again.values_list("not_before", flat=True)) > database_now()


def test_whoever_lost_its_slot_after_it_had_waited_has_its_place_again(files: RobotsFiles) -> None:
    """A run that is over before its turn came is no reason to go behind others."""
    [job] = waiting(files, "1")
    Fetch.objects.filter(is_robots=True).delete()
    Fetch.objects.filter(is_robots=False).update(not_before=database_now())
    was_due = Fetch.objects.get(pk=job.fetch_id).due_since
    free()
    [job] = claimed()
    stored(GivenBack(job=job))
    fetch = Fetch.objects.get(pk=job.fetch_id)
    assert (fetch.state, fetch.not_before, fetch.due_since) == (State.QUEUED, was_due, None)


def test_what_waits_for_another_robots_txt_goes_on_waiting(files: RobotsFiles) -> None:
    """Also where both are in one lane."""
    slots.set_rate("example", "10/s", covers_subdomains=True)
    waits, other = "https://a.example", "https://b.example"
    request_fetches([f"{waits}/page", f"{other}/page"])
    Fetch.objects.filter(is_robots=True).delete()
    Site.objects.update(recalled_at=None)
    for event in robots_gate.sort(claimed(), files)[1]:
        stored(event)
    free()
    answered(next(job for job in claimed() if job.url == f"{other}/robots.txt"), 404)
    assert Fetch.objects.get(url=f"{other}/page").due_since is None
    assert Fetch.objects.get(url=f"{other}/page").not_before < database_now()
    assert Fetch.objects.get(url=f"{waits}/page").due_since is not None


def test_who_begins_to_wait_for_what_has_just_come_goes_on_at_once(files: RobotsFiles, messages: list[Message]) -> None:
    """Whichever is committed first, the answer or the wait."""
    known()
    request_fetch(PAGE)
    jobs = claimed()
    RobotsFile.objects.all().delete()
    _, [event] = robots_gate.sort(jobs, files)
    known()
    messages.clear()
    stored(event)
    fetch = Fetch.objects.get(url=PAGE)
    assert (fetch.state, fetch.due_since) == (State.QUEUED, None)
    assert fetch.not_before < database_now()
    assert poke("site.example") in messages


def test_an_attempt_that_failed_goes_behind_though_it_had_waited(files: RobotsFiles) -> None:
    """Only who waits without an attempt keeps its place."""
    waiting(files, "1")
    known(state=RobotsState.UNREACHABLE, error="no answer")
    Fetch.objects.filter(is_robots=False).update(not_before=database_now())
    Fetch.objects.filter(is_robots=True).delete()
    free()
    _, [event] = robots_gate.sort(claimed(), files)
    stored(event)
    fetch = Fetch.objects.get()
    assert (fetch.attempts, fetch.due_since) == (1, None)
    assert fetch.not_before > database_now() + HOUR


def test_pages_of_many_origins_get_every_third_slot(files: RobotsFiles) -> None:
    """Also where what is known has expired whenever a page's turn comes, and new origins never cease to arrive."""
    slots.set_rate("example", "1/2h", covers_subdomains=True)
    pages = [f"https://{number}.example/" for number in range(5)]
    request_fetches(pages)
    Fetch.objects.filter(is_robots=True).delete()
    for number, url in enumerate(pages):
        Fetch.objects.filter(url=url).update(not_before=database_now() - HOUR * (20 - number))
    done: list[str] = []
    slots_used = 0
    while len(done) < len(pages) and slots_used < 100:
        slots_used += 1
        request_fetch(f"https://new{slots_used}.example/")
        Site.objects.update(recalled_at=None)
        free()
        let_through, events = robots_gate.sort(claimed(), files)
        for event in events:
            stored(event)
        RobotsFile.objects.all().delete()  # who needed it, has seen it
        files = RobotsFiles()
        for job in let_through:
            answered(job, 404 if job.is_robots else 200)
            done.extend([job.url] if not job.is_robots else [])
    assert (done, slots_used) == (pages, 3 * len(pages))
