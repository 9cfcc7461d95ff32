"""What becomes of the fetch whose answer refuses more requests, or asks to wait before a redirect."""

import json

from weir.ratelimit.pacing import NEVER, Confirmation, Run
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.jobs import Answer, FetchOutcome, Job
from weir.workers.fetches.models import FetchState

CHANCE = 0.5
TEMPORARY = (403, 413, 420)  # below 500: answers as any, unless they refuse


def ends(
    status: int, *headers: tuple[str, str], refusing: tuple[int, ...] | None = None, attempts: int = 0
) -> FetchOutcome:
    run = Run(interval_s=1, burst=1, start_until=10, use_until=10, confirmation=Confirmation(asked_at=NEVER))
    job = Job(
        fetch_id=7,
        url="https://example.com/a",
        redirects=0,
        attempts=attempts,
        max_attempts=3,
        site_id=3,
        site="example.com",
        slot_id=70,
        start_at=1,
        run=run,
        refusing=refusing,
    )
    raw = tuple((name.encode(), value.encode()) for name, value in headers)
    answer = Answer(job=job, status_code=status, headers=raw, body=b"page", lateness_ms=1.5, elapsed_ms=20.0)
    return judge(answer, max_body=100, chance=CHANCE)


def test_what_refuses_is_tried_again_and_what_does_not_is_a_result() -> None:
    """With a Retry-After that can be read, at a used up quota, or as the settings of the site say."""
    after, quota = ("Retry-After", "12"), ("RateLimit", "a;r=0;t=12")
    for status in TEMPORARY:
        for headers, refusing, is_again in [
            ([], None, False),
            ([("Retry-After", "soon")], None, False),
            ([after], None, True),
            ([quota], None, True),
            ([], (status, 429, 503), True),
            ([after], (429, 503), False),
        ]:
            outcome = ends(status, *headers, refusing=refusing)
            assert (outcome.state == FetchState.QUEUED, outcome.attempted) == (is_again, True), (
                status,
                headers,
                refusing,
            )
            assert outcome.error == (f"the site answered {status}" if is_again else "")
            assert (outcome.delay_s > 0) is is_again
    assert ends(403, after, attempts=2).state == FetchState.FAILED, "the last attempt is the last"
    assert ends(200, quota).state == FetchState.DONE, "a quota that is used up is no refusal"


def test_the_error_of_a_fetch_says_whether_its_site_refused() -> None:
    """Where the status alone does not tell: the history counts refusals apart from errors of servers."""
    after, also = ("Retry-After", "12"), ", which refuses more requests"
    for status in (502, 529, 999):
        for headers, refusing, said in [
            ([], None, ""),
            ([after], None, also),
            ([after], (429, 503), ""),
            ([], (429, 503, status), also),
        ]:
            assert ends(status, *headers, refusing=refusing).error == f"the site answered {status}{said}"
    for status in (429, 503):
        assert ends(status, after).error == f"the site answered {status}"
    for status in (500, 503):
        outcome = ends(status, after, refusing=(429,))
        assert (outcome.state, outcome.error) == (FetchState.QUEUED, f"the site answered {status}")


def test_a_redirect_is_followed_when_its_retry_after_is_over() -> None:
    """No attempt is counted for it; it says why it waits, and for how long; one that leads nowhere fails at once."""
    outcome = ends(302, ("Location", "/b"), ("Retry-After", "12"))
    assert (outcome.state, outcome.attempted, outcome.delay_s) == (FetchState.QUEUED, False, 12.0)
    assert (outcome.hop_url, "in 12 s" in outcome.error) == ("https://example.com/b", True)
    assert ends(302, ("Location", "/b")).delay_s == 0.0
    assert ends(302, ("Location", "ftp://b/"), ("Retry-After", "12")).state == FetchState.FAILED
    assert json.loads(ends(302, ("Retry-After", "12")).headers or "") == [["Retry-After", "12"]]
