"""What the fetch of a robots.txt means, by how it ended (RFC 9309, 2.3.1): rules, none, or that nothing is fetched."""

import gzip
import zlib
from dataclasses import replace

from weir.ratelimit.pacing import Confirmation, Run
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.jobs import Answer, Event, Failure, FetchOutcome, Flaw, Job
from weir.workers.fetches.methods import USUAL_REDIRECTS
from weir.workers.fetches.models import FetchState, RobotsState
from weir.workers.fetches.robots.answers import RobotsReading, read
from weir.workers.fetches.robots.rules import MAX_BYTES

RULES = b"User-agent: *\nDisallow: /private\n"
GZIPPED = gzip.compress(RULES, mtime=0)
JOB = Job(
    fetch_id=7,
    url="https://site.example/robots.txt",
    redirects=0,
    attempts=0,
    max_attempts=3,
    site_id=3,
    site="site.example",
    slot_id=70,
    start_at=1,
    run=Run(interval_s=1, burst=1, start_until=10, use_until=10, confirmation=Confirmation(asked_at=0)),
    is_robots=True,
)


def answer(status: int = 200, body: bytes = RULES, cut: str = "", **headers: bytes) -> Answer:
    raw = tuple((name.replace("_", "-").encode(), value) for name, value in headers.items())
    whole = Answer(job=JOB, status_code=status, headers=raw, body=body, lateness_ms=1.0, elapsed_ms=2.0)
    return replace(whole, flaw=Flaw.CUT, reason=cut) if cut else whole


def judged(event: Event) -> FetchOutcome:
    return judge(event, max_body=1_000, chance=0.0, allowed=Allowed(networks=(), ports=frozenset({80, 443})))


def reading(event: Event) -> RobotsReading:
    """Return what it means if it goes on like that to the last attempt."""
    outcome = judged(replace(event, job=replace(event.job, attempts=2)))
    assert outcome.state in {FetchState.DONE, FetchState.FAILED}, event
    return read(outcome, "Weir/0.1")


def test_any_file_is_rules() -> None:
    for status in (200, 203, 206, 299):
        assert reading(answer(status)) == RobotsReading(state=RobotsState.RULES, rules=RULES.decode()), status
    for status in (204, 205):
        assert reading(answer(status, b"")) == RobotsReading(state=RobotsState.RULES), status


def test_what_is_not_there_has_no_rules() -> None:
    """2.3.1.3: whatever comes with it, in whatever form."""
    for status in (400, 401, 403, 404, 410, 418, 451, 499):
        for event in (answer(status), answer(status, b"\x00", Content_Encoding=b"br"), answer(status, cut="reset")):
            assert reading(event) == RobotsReading(state=RobotsState.ALLOWED), event


def test_a_redirect_to_nowhere_is_no_error() -> None:
    """2.3.1.2 has redirects followed; 2.3.1.4 closes a site for errors of server or network, which these are not."""
    for event in [
        *(answer(status, b"\x00", cut="reset") for status in (300, 301, 302, 303, 304, 307, 308, 399)),
        answer(302, Location=b""),
        answer(305, Location=b"https://other.example/"),
        answer(302, Location=b"http://["),
        answer(302, Location=b"https://no host/"),
        answer(302, Location=b"mailto:kim@example.com"),
        answer(302, Location=b"ftp://site.example/robots.txt"),
        answer(302, Location=b"/" + b"a" * 9_000),
        replace(answer(302, Location=b"/robots.txt"), job=replace(JOB, redirects=USUAL_REDIRECTS)),
        replace(answer(302, Location=b"https://b.example/"), job=replace(JOB, redirects=USUAL_REDIRECTS)),
    ]:
        assert reading(event) == RobotsReading(state=RobotsState.ALLOWED), event


def test_five_redirects_in_a_row_are_followed() -> None:
    """2.3.1.2: also to other hosts."""
    for redirects in range(5):
        event = replace(answer(301, Location=b"http://other.example/r"), job=replace(JOB, redirects=redirects))
        assert judged(event).hop_url == "http://other.example/r"


def test_errors_of_server_and_network_close_a_site() -> None:
    """2.3.1.4. 429 is one, too, and so is an answer that is none."""
    events: list[Event] = [
        *(answer(status) for status in (500, 502, 503, 504, 599, 429, 101, 199, 600, 999)),
        Failure(job=JOB, error="no answer"),
        Failure(job=JOB, error="the site closed the connection without an answer", permanent=True, slot_used=True),
    ]
    for event in events:
        assert reading(event).state == RobotsState.UNREACHABLE, event
        assert reading(event).error


def test_rules_to_which_we_may_not_connect_are_not_taken_for_none() -> None:
    """There may be some, which our settings keep us from reading. Where they forbid the site, its fetches fail."""
    for location in (b"http://10.0.0.1/robots.txt", b"http://[::1]/", b"https://site.example:8443/robots.txt"):
        assert reading(answer(302, Location=location)).state == RobotsState.UNREACHABLE, location
    forbidden = Failure(job=JOB, error="10.0.0.1 is private", permanent=True)
    assert reading(forbidden).state == RobotsState.FORBIDDEN
    assert reading(replace(forbidden, job=replace(JOB, redirects=1))).state == RobotsState.UNREACHABLE


def test_an_encoding_that_cannot_be_undone_is_none() -> None:
    """No site is closed for it: what can be read counts, and the rest says nothing."""
    plain = (
        b"aws-chunked",
        b"utf-8",
        b"none, gzip, identity",
        b"gzip",
        b"deflate",
        b"gzip, gzip, gzip",
        b"identity",
        b"",
    )
    for event in [
        *(answer(Content_Encoding=encoding) for encoding in plain),
        answer(body=GZIPPED, Content_Encoding=b"gzip"),
        answer(body=zlib.compress(RULES), Content_Encoding=b"deflate"),
        answer(body=gzip.compress(GZIPPED), Content_Encoding=b"gzip, gzip"),
    ]:
        assert reading(event) == RobotsReading(state=RobotsState.RULES, rules=RULES.decode()), event
    unreadable = reading(answer(body=b"\x1f\x9d\x90\x03", Content_Encoding=b"compress"))
    assert unreadable.state == RobotsState.RULES


def test_one_that_is_cut_is_asked_for_again() -> None:
    """A rule behind the cut would be lost for a day. In the end, the site is left in peace for a while instead."""
    for event in [
        answer(cut="reset"),
        answer(body=b"", cut="reset"),
        answer(cut="reset", Content_Encoding=b"unheard-of"),
        answer(cut="reset", Content_Encoding=b"gzip"),
        answer(body=GZIPPED[:-3], cut="reset", Content_Encoding=b"gzip"),
        answer(body=GZIPPED[:-9], Content_Encoding=b"gzip"),
        answer(body=GZIPPED[:12] + b"\x00" * 30, Content_Encoding=b"gzip"),
        answer(body=zlib.compress(RULES)[:-5], Content_Encoding=b"deflate"),
    ]:
        again = judged(event)
        assert (again.state, again.attempted, again.content) == (FetchState.QUEUED, True, None), event
        assert reading(event).state == RobotsState.UNREACHABLE, event
        assert reading(event).error.endswith("(attempt 3 of 3)"), event


def test_one_that_is_cut_behind_what_counts_is_whole() -> None:
    """No more than MAX_BYTES are read anyway, compressed or not."""
    long = RULES + b"#" * MAX_BYTES
    for event in (answer(body=long, cut="reset"), answer(body=gzip.compress(long), cut="", Content_Encoding=b"gzip")):
        assert reading(event).rules == RULES.decode()
