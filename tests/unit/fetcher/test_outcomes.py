"""What becomes of a fetch is decided by pure functions: tables of what came and what is stored."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from weir.ratelimit.pacing import Confirmation, Run
from weir.workers.backoff import LONGEST_S, backoff_s
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.results.outcomes import (
    UNCOUNTED_EXPLAINED,
    UNCOUNTED_LOSSES,
    lost,
    unread,
)
from weir.workers.fetches.fetcher.results.outcomes import judge as judge_with
from weir.workers.fetches.jobs import Answer, Disallowed, Event, Failure, FetchOutcome, Job, Snoozed
from weir.workers.fetches.methods import USUAL_REDIRECTS
from weir.workers.fetches.models import FetchState

CAP = 5 * 2**20
PAGE = b"<html>Weir</html>"
CHANCE = 0.25


def job(*, url: str = "https://example.com/a/page", redirects: int = 0, attempts: int = 0, of: int = 5) -> Job:
    run = Run(interval_s=1, burst=1, start_until=10, use_until=10, confirmation=Confirmation(asked_at=0))
    return Job(
        fetch_id=7,
        url=url,
        redirects=redirects,
        attempts=attempts,
        max_attempts=of,
        site_id=3,
        site="example.com",
        slot_id=70,
        start_at=1,
        run=run,
    )


def answer(status: int, *headers: tuple[str, bytes], body: bytes = PAGE, to: Job | None = None) -> Answer:
    raw = tuple((name.encode(), value) for name, value in headers)
    return Answer(job=to or job(), status_code=status, headers=raw, body=body, lateness_ms=1.5, elapsed_ms=20.0)


def judge(event: Event, max_body: int = CAP) -> FetchOutcome:
    return judge_with(event, max_body=max_body, chance=CHANCE)


@for_each("status", [200, 201, 400, 401, 403, 404, 410, 418, 451])
def test_an_answer_is_a_result_whatever_it_says(status: int) -> None:
    """Every status below 500 but 429 ends the fetch with its body, headers and times."""
    outcome = judge(answer(status, ("ETag", b'"v1"'), ("Last-Modified", b"Sat, 21 Nov 2026 10:00:00 GMT")))
    assert outcome == FetchOutcome(
        fetch_id=7,
        slot_id=70,
        state=FetchState.DONE,
        status_code=status,
        headers='[["ETag", "\\"v1\\""], ["Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT"]]',
        etag='"v1"',
        last_modified="Sat, 21 Nov 2026 10:00:00 GMT",
        lateness_ms=1.5,
        elapsed_ms=20.0,
        content=PAGE,
    )


@for_each("status", [429, 500, 502, 503, 504, 599])
def test_a_site_in_trouble_is_asked_again(status: int) -> None:
    """429 and 5xx count an attempt, use the slot, and wait for the back-off."""
    outcome = judge(answer(status, to=job(attempts=2)))
    assert (outcome.state, outcome.attempted, outcome.slot_used) == (FetchState.QUEUED, True, True)
    assert outcome.delay_s == backoff_s(3, CHANCE)
    assert outcome.error == f"the site answered {status}"
    assert (outcome.status_code, outcome.content) == (status, None)


@for_each(("attempts", "state"), [(0, FetchState.QUEUED), (1, FetchState.QUEUED), (2, FetchState.FAILED)])
def test_the_last_attempt_is_final(attempts: int, state: FetchState) -> None:
    """`max_attempts` attempts are made and no more; the error of the last one counts them."""
    outcome = judge(answer(503, to=job(attempts=attempts, of=3)))
    assert outcome.state == state
    assert outcome.error.endswith("(attempt 3 of 3)") is (state == FetchState.FAILED)
    assert (outcome.delay_s > 0) is (state == FetchState.QUEUED)


def test_trouble_before_the_request_was_written_counts_an_attempt_but_no_slot() -> None:
    """A connection that could not be opened leaves the slot to others."""
    outcome = judge(Failure(job=job(), error="no connection"))
    assert (outcome.state, outcome.attempted, outcome.slot_used) == (FetchState.QUEUED, True, False)
    assert outcome.error == "no connection"
    assert outcome.delay_s == backoff_s(1, CHANCE)


def test_trouble_after_the_request_was_written_uses_the_slot() -> None:
    """The site has seen the request: its slot is used, whatever came of it."""
    outcome = judge(Failure(job=job(), error="reset", lateness_ms=2.0, elapsed_ms=9.0))
    assert (outcome.attempted, outcome.slot_used, outcome.lateness_ms, outcome.elapsed_ms) == (
        True,
        True,
        2.0,
        9.0,
    )


def test_permanent_trouble_is_not_tried_again() -> None:
    """What will not change, such as a refused address, fails at the first attempt."""
    outcome = judge(Failure(job=job(), error="10.0.0.1 is private", permanent=True))
    assert (outcome.state, outcome.error, outcome.attempted) == (FetchState.FAILED, "10.0.0.1 is private", True)


def test_a_missed_run_counts_nothing() -> None:
    """A fetch that could not start in its run goes back: no attempt, no wait, its slot unused."""
    assert judge(Snoozed(job=job(attempts=4))) == FetchOutcome(
        fetch_id=7, slot_id=70, state=FetchState.QUEUED, attempted=False, slot_used=False
    )


def test_what_waits_for_robots_txt_counts_nothing_and_says_so() -> None:
    """As a missed run, but there is no use in coming back at once."""
    outcome = judge(Snoozed(job=job(attempts=4), delay_s=1.0, reason="waits for robots.txt"))
    assert (outcome.state, outcome.attempted, outcome.slot_used) == (FetchState.QUEUED, False, False)
    assert (outcome.delay_s, outcome.error) == (1.0, "waits for robots.txt")


def test_what_robots_txt_disallows_fails_without_an_attempt() -> None:
    """Nothing was sent, and nothing will be."""
    outcome = judge(Disallowed(job=job(), error="robots.txt disallows it"))
    assert (outcome.state, outcome.error) == (FetchState.FAILED, "robots.txt disallows it")
    assert (outcome.attempted, outcome.slot_used) == (False, False)


@for_each(("attempts", "state"), [(1, FetchState.QUEUED), (2, FetchState.FAILED)])
def test_trouble_that_lasts_is_waited_out(attempts: int, state: FetchState) -> None:
    """The back-off begins when another attempt may be of use; the attempts are counted as ever."""
    outcome = judge(Failure(job=job(attempts=attempts, of=3), error="not now", not_before_s=60.0))
    assert (outcome.state, outcome.slot_used) == (state, False)
    assert outcome.delay_s == (60 + backoff_s(2, CHANCE) if state == FetchState.QUEUED else 0)


def lost_with(
    *,
    was_running: bool = True,
    attempts: int = 0,
    max_attempts: int = 3,
    losses: int = 0,
    in_hand: bool = False,
    is_explained: bool = False,
    chance: float = CHANCE,
) -> FetchOutcome:
    return lost(
        fetch_id=7,
        slot_id=70,
        was_running=was_running,
        attempts=attempts,
        max_attempts=max_attempts,
        losses=losses,
        in_hand=in_hand,
        is_explained=is_explained,
        chance=chance,
    )


def test_a_lost_message_counts_nothing() -> None:
    """A fetch that was reserved but never claimed has made no attempt, even where one is all it has."""
    outcome = lost_with(was_running=False, max_attempts=1, losses=99, in_hand=True)
    assert outcome == FetchOutcome(
        fetch_id=7, slot_id=70, state=FetchState.QUEUED, attempted=False, slot_used=False, is_lost=True
    )


@for_each(
    ("losses", "is_explained"),
    [(0, False), (1, False), (2, False), (UNCOUNTED_LOSSES - 1, False), (0, True), (UNCOUNTED_EXPLAINED - 1, True)],
)
def test_what_a_dead_fetcher_held_counts_nothing(losses: int, is_explained: bool) -> None:
    """The fetch may have been sent: its slot counts. It waits for longer each time, but for no robots.txt."""
    outcome = lost_with(attempts=2, losses=losses, is_explained=is_explained)
    assert (outcome.state, outcome.attempted, outcome.slot_used) == (FetchState.QUEUED, False, True)
    assert outcome.delay_s == backoff_s(losses + 1, CHANCE)
    assert "died" in outcome.error


@for_each(("attempts", "state"), [(1, FetchState.QUEUED), (2, FetchState.FAILED)])
@for_each(
    ("losses", "in_hand", "is_explained"),
    [(0, True, False), (2, True, False), (UNCOUNTED_LOSSES, False, False), (UNCOUNTED_EXPLAINED, False, True)],
)
def test_what_a_dead_fetcher_had_in_hand_costs_an_attempt(
    losses: int, in_hand: bool, is_explained: bool, attempts: int, state: FetchState
) -> None:
    """It may have died of it. So does a fetch that was lost too often. The last attempt is final."""
    outcome = lost_with(attempts=attempts, losses=losses, in_hand=in_hand, is_explained=is_explained)
    assert (outcome.state, outcome.attempted, outcome.slot_used) == (state, True, True)
    assert outcome.delay_s == (backoff_s(2, CHANCE) if state == FetchState.QUEUED else 0)
    assert "died" in outcome.error


@pytest.mark.parametrize(("is_explained", "uncounted"), [(False, UNCOUNTED_LOSSES), (True, UNCOUNTED_EXPLAINED)])
@given(deaths=st.lists(st.booleans()), max_attempts=st.integers(1, 20), chance=st.floats(0, 1, exclude_max=True))
def test_a_fetch_that_is_lost_each_time_ends(
    is_explained: bool, uncounted: int, deaths: list[bool], max_attempts: int, chance: float
) -> None:
    """Whether in hand or not: after `max_attempts` losses that count, and so many others at most."""
    attempts, in_hand = 0, iter([*deaths, *[False] * (uncounted + max_attempts)])
    for losses, had in enumerate(in_hand):
        outcome = lost_with(
            attempts=attempts,
            max_attempts=max_attempts,
            losses=losses,
            in_hand=had,
            is_explained=is_explained,
            chance=chance,
        )
        attempts += outcome.attempted
        if outcome.state == FetchState.FAILED:
            break
    assert attempts == max_attempts
    assert losses < uncounted + max_attempts


def test_answers_that_nobody_read_go_back_over_some_minutes() -> None:
    """Evenly: as many as can be read alone are to come each second."""
    assert [unread(job(), chance).delay_s for chance in (0.0, 0.5, 0.75)] == [LONGEST_S, LONGEST_S / 2, LONGEST_S / 4]


@for_each("status", [301, 302, 303, 307, 308])
@for_each(
    ("location", "url", "site"),
    [
        (b"https://other.example/x", "https://other.example/x", "other.example"),
        (b"http://other.example:8080/x#y", "http://other.example:8080/x", "other.example:8080"),
        (b"/root", "https://example.com/root", "example.com"),
        (b"sibling?q=1", "https://example.com/a/sibling?q=1", "example.com"),
        (b"//other.example/x", "https://other.example/x", "other.example"),
        (b"../up", "https://example.com/up", "example.com"),
        (b"/sp ace", "https://example.com/sp%20ace", "example.com"),
        (b"/caf%C3%A9", "https://example.com/caf%C3%A9", "example.com"),
        (b"?", "https://example.com/a/page?", "example.com"),
        (b"///other.example/x", "https://other.example/x", "other.example"),
        (b"\\ok", "https://example.com/ok", "example.com"),
        (b"/\\other.example", "https://other.example/", "other.example"),
        (b"/zip?type=a%2Fb&sig=c%3D", "https://example.com/zip?type=a%2Fb&sig=c%3D", "example.com"),
    ],
)
def test_a_redirect_is_a_hop_in_its_targets_site(status: int, location: bytes, url: str, site: str) -> None:
    """A redirect is no attempt: the fetch is queued again, for the site of where it leads."""
    outcome = judge(answer(status, ("LOCATION", location), to=job(attempts=4)))
    assert (outcome.state, outcome.hop_url, outcome.hop_host) == (FetchState.QUEUED, url, site)
    assert (outcome.attempted, outcome.slot_used, outcome.delay_s, outcome.content) == (
        False,
        True,
        0.0,
        None,
    )


def test_a_location_in_raw_utf_8_leads_to_its_very_bytes() -> None:
    """Many sites do not escape what they redirect to; the bytes they mean are those they sent."""
    assert judge(answer(302, ("Location", "/café".encode()))).hop_url == "https://example.com/caf%C3%A9"


@for_each("status", [300, 304, 305, 306])
def test_other_statuses_in_the_300s_are_answers(status: int) -> None:
    """Only the statuses that mean a redirect are followed."""
    assert judge(answer(status, ("Location", b"/elsewhere"))).state == FetchState.DONE


@for_each("location", ["http://10.0.0.1/", "//other.example:25/"])
def test_a_redirect_to_what_the_settings_forbid_fails_and_says_so(location: str) -> None:
    to = answer(302, ("Location", location.encode()))
    outcome = judge_with(to, max_body=CAP, chance=CHANCE, allowed=Allowed())
    assert outcome.state == FetchState.FAILED
    assert "WEIR_FETCH_ALLOW_" in outcome.error


def test_a_redirect_to_nowhere_is_an_answer() -> None:
    """Without a Location there is nothing to follow; what came is stored."""
    assert judge(answer(302)).state == FetchState.DONE


@for_each(
    ("location", "reason"),
    [
        (b"ftp://other.example/", "scheme 'ftp'"),
        (b"file:///etc/passwd", "scheme 'file'"),
        (b"https://user:secret@other.example/", "credentials"),
        (b"http://[::1", ""),
        (b"http://0x7f.1/", "neither a name nor an IPv4 address"),
        (b"http://2130706433/", "neither a name nor an IPv4 address"),
        (b"http://other.example:0/", "port"),
        (b"http://other.example:99999/", "ort"),
        (b"http://" + b"a" * 64 + b".example/", "not a host name"),
        (b"/" + b"x" * 9_000, "longer"),
        (b"javascript:alert(1)", "scheme 'javascript'"),
    ],
)
def test_a_redirect_to_what_is_not_fetched_fails_and_says_where_it_led(location: bytes, reason: str) -> None:
    """A bad target ends the fetch at once: the site would say the same again."""
    outcome = judge(answer(302, ("Location", location)))
    assert outcome.state == FetchState.FAILED
    assert outcome.error.startswith(f"redirected to {location.decode('latin-1')!r}: ")
    assert reason in outcome.error
    assert outcome.hop_url is None


@for_each(
    ("asked", "locations", "becomes"),
    [
        ("a", [b"/2", b"/2"], "https://example.com/2"),
        ("a", [b"", b" /2\t"], "https://example.com/2"),
        ("a", [b"/2", b"/3"], "redirected to 2 different places at once"),
        ("a", [b"/2", b"/3", b"/2", b"/4"], "redirected to 3 different places at once"),
        ("a", [b""], None),
        ("a?b", [b"?"], "https://example.com/a?"),
        ("a%2Ab", [b"/a*b"], "https://example.com/a*b"),
        ("a*b", [b"/a%2Ab"], "https://example.com/a%2Ab"),
    ],
)
def test_a_redirect_is_followed_where_it_names_one_place(
    asked: str, locations: list[bytes], becomes: str | None
) -> None:
    """In two lines, too; another spelling of where it was asked is another place. Without any, it is an answer."""
    to = job(url=f"https://example.com/{asked}")
    outcome = judge(answer(302, *(("Location", location) for location in locations), to=to))
    assert (outcome.hop_url or outcome.error or None) == becomes
    assert (outcome.state == FetchState.DONE) == (becomes is None)


@for_each(
    ("first", "asked", "location", "back"),
    [
        ("", "https://example.com/a?b", b"/a?b", "itself"),
        ("", "https://example.com/a?b", b"?b#part", "itself"),
        ("", "https://example.com/a?b", b"HTTPS://EXAMPLE.com.:443/./a?b", "itself"),
        (" https://Example.com/ä#part ", "https://login.example/", b"https://example.com/%C3%A4", "where it began"),
        ("https://example.com/a", "https://example.com/b", b"/b", "itself"),
        ("https://example.com/a*", "https://login.example/", b"https://example.com/a%2A", None),
        ("no URL any more", "https://login.example/", b"https://example.com/a", None),
    ],
)
def test_a_redirect_to_what_was_asked_already_ends_the_fetch(
    first: str, asked: str, location: bytes, back: str | None
) -> None:
    """At once: the site would be asked the very same ten times more, and each of that takes a slot."""
    to = replace(job(url=asked, redirects=3), first_url=first)
    outcome = judge(answer(302, ("Location", location), to=to))
    assert outcome.state == (FetchState.QUEUED if back is None else FetchState.FAILED)
    assert outcome.error.startswith("" if back is None else f"redirected to {back}: asked again, the site would say ")


def test_redirects_in_a_circle_end() -> None:
    """A fetch is led on ten times and no more; then it fails and says so."""
    url, hops = "https://example.com/0", 0
    while True:
        to = f"/{(hops + 1) % 3}".encode()
        outcome = judge(answer(302, ("Location", to), to=job(url=url, redirects=hops)))
        if outcome.hop_url is None:
            break
        url, hops = outcome.hop_url, hops + 1
    assert hops == USUAL_REDIRECTS == 10
    assert (outcome.state, outcome.error) == (FetchState.FAILED, "more than 10 redirects, the last to /2")


def test_headers_of_any_bytes_can_be_stored() -> None:
    """Bytes beyond ASCII are kept one by one, in few bytes; NUL is dropped: PostgreSQL stores what is left."""
    outcome = judge(answer(200, ("X-Odd", b"caf\xe9 \xff\0 end"), ("X-Odd", b"twice")))
    assert json.loads(outcome.headers or "") == [["X-Odd", "café ÿ end"], ["X-Odd", "twice"]]
    assert len((judge(answer(200, ("X", b"\xe9" * 1_000))).headers or "").encode()) < 2_100
