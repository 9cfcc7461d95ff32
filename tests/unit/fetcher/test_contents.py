"""The status says what an answer is; its body matters where it is what was asked for. Tables of both."""

import gzip
import zlib
from dataclasses import replace
from functools import partial

import pytest

from tests.unit.fetcher.test_outcomes import CAP, CHANCE, PAGE, answer, job
from weir.workers.backoff import backoff_s
from weir.workers.fetches.bodies.validators import Validators, echo
from weir.workers.fetches.fetcher.results.contents import UNREAD, OverBudget, is_packed
from weir.workers.fetches.fetcher.results.outcomes import judge as judge_with
from weir.workers.fetches.jobs import Answer, FetchOutcome, Flaw
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.robots.rules import MAX_BYTES

judge = partial(judge_with, max_body=CAP, chance=CHANCE)
packed = partial(gzip.compress, mtime=0)
CUT = "the site closed the connection in the middle of the body"
ETAG = ("ETag", b'"v1"')


def flawed(status: int, *headers: tuple[str, bytes]) -> dict[str, Answer]:
    """Return answers of this status whose bodies are flawed, by the reason that is stated."""

    def of(encoding: bytes, body: bytes) -> Answer:
        return answer(status, ETAG, ("Content-Encoding", encoding), *headers, body=body)

    return {
        CUT: replace(answer(status, ETAG, *headers), flaw=Flaw.CUT, reason=CUT),
        f"the body is larger than {CAP} bytes (WEIR_FETCH_MAX_BODY)": replace(
            answer(status, ETAG, *headers), flaw=Flaw.TOO_LARGE
        ),
        "the compressed body is broken: Error -3 while decompressing data: incorrect header check": of(b"gzip", PAGE),
        "the compressed body ends too early": of(b"gzip", packed(PAGE)[:-9]),
        "the body is encoded 3 times over": of(b"gzip, gzip, br", PAGE),
        "the body takes more than 0.08 s of the processor to decompress": of(
            b"gzip", packed(b"") * (CAP // len(packed(b"")))
        ),
    }


def test_a_status_keeps_its_meaning_whatever_its_body_is() -> None:
    """A redirect leads on, trouble is tried again, and any other answer but a success is a result."""
    for status in (301, 302, 303, 307, 308):
        for reason, event in flawed(status, ("Location", b"/next")).items():
            outcome = judge(event)
            assert (outcome.state, outcome.hop_url) == (FetchState.QUEUED, "https://example.com/next"), (status, reason)
            assert (outcome.attempted, outcome.error, outcome.incomplete) == (False, "", ""), (status, reason)
    for status in (429, 500, 503, 599, 999):
        for reason, event in flawed(status).items():
            outcome = judge(event)
            assert (outcome.state, outcome.error) == (FetchState.QUEUED, f"the site answered {status}"), (
                status,
                reason,
            )
            assert (outcome.delay_s, outcome.content) == (backoff_s(1, CHANCE), None), (status, reason)
    for status in (300, 302, 400, 401, 403, 404, 410, 451):
        for reason, event in flawed(status).items():
            outcome = judge(event)
            assert (outcome.state, outcome.status_code, outcome.error) == (FetchState.DONE, status, ""), (
                status,
                reason,
            )
            assert (outcome.content, outcome.incomplete, outcome.etag) == (b"", reason, ""), (status, reason)


def test_of_what_was_asked_for_a_cut_body_is_tried_again_and_any_other_flaw_is_final() -> None:
    """Another attempt may get all of a cut body; a broken or too large one would come again."""
    for status in (200, 201, 203, 206, 226):
        for reason, event in flawed(status).items():
            outcome = judge(event)
            is_cut = reason in {CUT, "the compressed body ends too early"}
            assert outcome.state == (FetchState.QUEUED if is_cut else FetchState.FAILED), (status, reason)
            assert (outcome.error, outcome.content, outcome.incomplete) == (reason, None, ""), (status, reason)
            assert (outcome.attempted, outcome.slot_used, outcome.status_code) == (True, True, status)
            last = judge(replace(event, job=job(attempts=4)))
            said = f"{reason} (attempt 5 of 5)" if is_cut else reason
            assert (last.state, last.error, last.content) == (FetchState.FAILED, said, None), (status, reason)


def test_statuses_without_a_body_are_results_whatever_their_headers_say() -> None:
    """The Content-Encoding of a 204 or 304 is that of another answer."""
    for status in (204, 304):
        for encoding in (b"gzip", b"br", b"utf-8", b"gzip, gzip, gzip"):
            outcome = judge(answer(status, ETAG, ("Content-Encoding", encoding), body=b""))
            assert (outcome.state, outcome.content, outcome.incomplete) == (FetchState.DONE, b"", ""), (
                status,
                encoding,
            )
            assert outcome.etag == '"v1"'


def test_a_body_in_no_encoding_is_kept_and_marked() -> None:
    """Its next fetch asks for all of it again, as its site says what is not so."""
    outcome = judge(answer(200, ETAG, ("content-encoding", b"UTF-8")))
    assert (outcome.state, outcome.content, outcome.error, outcome.etag) == (FetchState.DONE, PAGE, "", "")
    assert outcome.incomplete == "taken as it came: no encoding is called 'utf-8'"


def test_all_header_lines_name_encodings() -> None:
    """Lines are one list, in their order."""
    lines = [("Content-Encoding", b"identity"), ("content-encoding", b""), ("CONTENT-ENCODING", b"gzip")]
    assert judge(answer(200, *lines, body=packed(PAGE))).content == PAGE
    assert judge(answer(200, *lines, lines[2], body=packed(packed(PAGE)))).content == PAGE


def test_a_transfer_may_be_encoded_too() -> None:
    """Chunks are undone where they come; what is named beside them was applied after the encodings of the content."""
    assert judge(answer(200, ("Transfer-Encoding", b"gzip, chunked"), body=packed(PAGE))).content == PAGE
    both = ("Content-Encoding", b"deflate"), ("transfer-encoding", b"GZIP,Chunked")
    assert judge(answer(200, *both, body=packed(zlib.compress(PAGE)))).content == PAGE
    assert judge(answer(200, ("Transfer-Encoding", b"chunked"))).incomplete == ""


# --- with WEIR_FETCH_KEEP_INCOMPLETE --------------------------------------------------------------------------------


def kept(event: Answer) -> tuple[str, bytes | None, str]:
    outcome = judge(event, keep=True)
    return outcome.state, outcome.content, outcome.incomplete


def test_what_came_is_kept_and_marked_where_that_is_wanted() -> None:
    """As much as can be read of it, within the cap; what cannot be read at all, as it came."""
    gz = ("Content-Encoding", b"gzip")
    large = packed(bytes(2 * CAP))
    for status, state in ((200, FetchState.FAILED), (404, FetchState.DONE)):
        to = job(attempts=4)
        for event, content in [
            (replace(answer(status, to=to), flaw=Flaw.CUT, reason=CUT), PAGE),
            (replace(answer(status, gz, body=packed(PAGE)[:-9], to=to), flaw=Flaw.CUT, reason=CUT), None),
            (answer(status, gz, body=packed(PAGE), to=to), PAGE),
            (answer(status, gz, body=PAGE, to=to), PAGE),
            (replace(answer(status, body=bytes(CAP + 1), to=to), flaw=Flaw.TOO_LARGE), bytes(CAP)),
            (answer(status, gz, body=large, to=to), bytes(CAP)),
            (replace(answer(status, gz, body=large[:5_000], to=to), flaw=Flaw.TOO_LARGE), None),
        ]:
            became, stored, mark = kept(event)
            is_well = event.body == packed(PAGE)
            assert became == (FetchState.DONE if is_well else state)
            assert (mark == "") is is_well
            assert stored is not None
            assert content is None or stored == content


def test_nothing_is_kept_of_an_attempt_that_is_not_the_last() -> None:
    """What is tried again has no content yet."""
    assert kept(replace(answer(200), flaw=Flaw.CUT, reason=CUT)) == (FetchState.QUEUED, None, "")


def test_of_an_answer_that_is_no_body_nothing_is_kept() -> None:
    """429 and 5xx, and redirects, are what they are by their status."""
    for status in (429, 500):
        outcome = judge(replace(answer(status, to=job(attempts=4)), flaw=Flaw.CUT, reason=CUT), keep=True)
        assert (outcome.state, outcome.content, outcome.incomplete) == (FetchState.FAILED, None, "")


# --- robots.txt -----------------------------------------------------------------------------------------------------


def robots(event: Answer) -> FetchOutcome:
    return judge(replace(event, job=replace(event.job, is_robots=True)), keep=True)


def test_of_a_robots_txt_the_beginning_counts_but_not_where_the_site_cut_it_off() -> None:
    """Rules behind the cut are missing: it is tried again. What Weir itself does not read counts by its beginning."""
    text = b"User-agent: *\n" * (MAX_BYTES // 10)
    gz = ("Content-Encoding", b"gzip")
    for event in (answer(200, body=text), answer(200, gz, body=packed(text))):
        outcome = robots(event)
        assert (outcome.state, outcome.content, outcome.incomplete) == (FetchState.DONE, text[: MAX_BYTES + 1], "")
    assert robots(replace(answer(200, body=text[:MAX_BYTES]), flaw=Flaw.TOO_LARGE)).state == FetchState.DONE
    for event in (replace(answer(200), flaw=Flaw.CUT, reason=CUT), answer(200, gz, body=packed(PAGE)[:-9])):
        outcome = robots(event)
        assert (outcome.state, outcome.content) == (FetchState.QUEUED, None)
    for event in (
        replace(answer(404), flaw=Flaw.CUT, reason=CUT),
        answer(404, gz),
        replace(answer(404), flaw=Flaw.TOO_LARGE),
    ):
        outcome = robots(event)
        assert (outcome.state, outcome.content, outcome.incomplete) == (FetchState.DONE, b"", "")


# --- budgets --------------------------------------------------------------------------------------------------------


def test_a_costly_body_is_put_off_and_what_is_put_off_too_long_is_tried_again() -> None:
    """A first try ends early, by OverBudget; without any time left, nothing is read, and nobody is blamed."""
    costly = answer(200, ("Content-Encoding", b"gzip"), body=packed(b"") * (CAP // len(packed(b""))))
    assert is_packed(costly)
    with pytest.raises(OverBudget):
        judge(costly, budget_s=0.005)
    outcome = judge(costly, budget_s=0)
    assert (outcome.state, outcome.error, outcome.attempted) == (FetchState.QUEUED, UNREAD, True)
    missing = judge(replace(costly, status_code=404), budget_s=0)
    assert (missing.state, missing.content, missing.incomplete) == (FetchState.DONE, b"", UNREAD)
    for event in (answer(200), answer(204, ("Content-Encoding", b"gzip")), answer(200, ("Content-Encoding", b""))):
        assert not is_packed(event)
        assert judge(event, budget_s=0).state == FetchState.DONE


# --- validators -----------------------------------------------------------------------------------------------------


def test_validators_go_back_byte_by_byte_or_not_at_all() -> None:
    """Bytes beyond ASCII are kept; what a header cannot hold, or what would ask for something else, is not sent."""
    for raw, is_sent in [
        (b'"v1"', True),
        (b'W/"v1"', True),
        (b"bare", True),
        (b'""', True),
        (b'"a\tb"', True),
        (b'"caf\xe9"', True),
        (b'"\xc3\xa9\xff\x80"', True),
        (b'"a", "b"', True),
        (b'"*"', True),
        (b"*", False),
        (b" * ", False),
        (b"", False),
        (b" ", False),
        (b'"a\0b"', False),
        (b'"a\rb"', False),
        (b'"a\nb"', False),
        (b'"a\x01b"', False),
        (b'"a\x7fb"', False),
    ]:
        for name, sent_as in ((b"ETag", b"If-None-Match"), (b"last-modified", b"If-Modified-Since")):
            outcome = judge(answer(200, (name.decode(), raw)))
            assert bool(outcome.etag or outcome.last_modified) is is_sent, raw
            of = Validators(fetch_id=1, etag=outcome.etag, last_modified=outcome.last_modified)
            assert of.headers() == ([(sent_as, raw)] if is_sent else []), raw
    assert echo("\u2603") == b""  # never stored by Weir


def test_a_304_to_a_request_with_validators_refers_to_their_result() -> None:
    """And one that was not asked for does not."""
    asked = replace(job(), validators=Validators(fetch_id=9, etag='"v1"', last_modified=""))
    assert judge(answer(304, to=asked)).unchanged_from == 9
    assert judge(answer(304)).unchanged_from is None


def test_an_honest_page_of_the_caps_size_is_read_in_a_first_try() -> None:
    """It is not put off."""
    body = zlib.compress(PAGE * (CAP // len(PAGE)))
    assert judge(answer(200, ("Content-Encoding", b"deflate"), body=body), budget_s=0.05).state == FetchState.DONE
