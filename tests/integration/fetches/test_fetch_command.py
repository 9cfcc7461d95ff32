"""`manage.py fetch`: what it queues, how it watches, and what it says in the end."""

import json
import math
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models.functions import Now
from pytest_django import Settings
from rich.console import Console

from project.celery import app
from tests.integration.conftest import Eventually, StartPython
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers import consumers
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.management import turns
from weir.workers.fetches.management.commands import fetch as command
from weir.workers.fetches.management.screen import watching
from weir.workers.fetches.management.turns import Turns
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports.progress import FetchIds, Progress, progress
from weir.workers.fetches.reports.why import Why, why
from weir.workers.processes.models import Process

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

Run = tuple[int, str, str]
Looking = Callable[..., list[str]]


def fetch(*arguments: str) -> Run:
    """Return the command's exit status, and what it wrote to stdout and stderr."""
    output, errors = StringIO(), StringIO()
    try:
        call_command("fetch", *arguments, stdout=output, stderr=errors)
    except SystemExit as ended:
        return int(str(ended.code)), output.getvalue(), errors.getvalue()
    return 0, output.getvalue(), errors.getvalue()


def urls() -> list[str]:
    return list(Fetch.objects.order_by("pk").values_list("url", flat=True))


def end(number: int, state: FetchState, **fields: Any) -> None:
    """Let `number` of the waiting fetches end, the oldest first."""
    chosen = Fetch.objects.filter(state=FetchState.QUEUED).order_by("pk")[:number]
    Fetch.objects.filter(pk__in=list(chosen.values_list("pk", flat=True))).update(
        state=state, finished_at=Now(), **fields
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that workers consume all queues."""
    monkeypatch.setattr(consumers, "unserved_queues", lambda *_: [])


@pytest.fixture
def between_looks(monkeypatch: pytest.MonkeyPatch, served: None) -> Callable[[Callable[[], None]], None]:  # noqa: ARG001  asked for its effect
    """Return a function that sets what happens whenever the command would wait."""

    def happens(do: Callable[[], None]) -> None:
        monkeypatch.setattr(time, "sleep", lambda _seconds: do())

    return happens


# --- queueing -------------------------------------------------------------------------------------


def test_urls_are_queued_in_order_without_any_worker() -> None:
    """`--no-wait` queues the URLs of the command line, as asked, and says under which ids."""
    status, output, _ = fetch(
        "http://a.example/1", "http://b.example/2", "--no-wait", "--priority=7", "--max-attempts=2"
    )
    assert (status, urls()) == (0, ["http://a.example/1", "http://b.example/2"])
    assert set(Fetch.objects.values_list("state", "priority", "max_attempts")) == {("queued", 7, 2)}
    first, last = Fetch.objects.order_by("pk").values_list("pk", flat=True)
    assert output.splitlines()[0] == f"2 fetches: ids {first}-{last}"


def test_a_url_that_is_unfinished_is_not_queued_again_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--dedupe` names the existing fetches, each once, in whichever chunk its URL comes."""
    monkeypatch.setattr(command, "CHUNK", 2)
    fetch("http://a.example/1", "http://a.example/2", "--dedupe", "--no-wait")
    numbers = (3, 2, 1, 1, 4, 2)
    _, output, _ = fetch(*(f"http://a.example/{number}" for number in numbers), "--dedupe", "--no-wait", "--json")
    told = json.loads(output)
    assert sorted(urls()) == [f"http://a.example/{number}" for number in (1, 2, 3, 4)]
    assert sorted(pk for low, high in told["ids"] for pk in range(low, high + 1)) == sorted(
        Fetch.objects.values_list("pk", flat=True)
    )
    assert told["fetches"] == told["unfinished"] == 4


def test_headers_go_with_each_request() -> None:
    fetch("http://a.example/1", "http://a.example/2", "--header", "Accept: text/csv", "--header", "X: 1", "--no-wait")
    assert list(Fetch.objects.values_list("request_headers", flat=True)) == [{"Accept": "text/csv", "X": "1"}] * 2


def test_a_method_and_a_body_go_with_each_request(tmp_path: Path) -> None:
    """As a text, from a file, as JSON or as the fields of a form."""
    file = tmp_path / "order"
    file.write_bytes(b'{"a": 1} \xff')
    for given in (
        ("--body", "\u00e4"),
        ("--body", f"@{file}"),
        ("--json-body", '{"a": 1}'),
        ("--form", "a=1=2", "--form", "b="),
    ):
        fetch("http://a.example/", "--method", "post", "--repeatable", "--no-wait", *given)
    bodies = ["\u00e4".encode(), b'{"a": 1} \xff', b'{"a":1}', b"a=1%3D2&b="]
    assert [found.request_body for found in Fetch.objects.order_by("pk")] == bodies
    assert set(Fetch.objects.values_list("method", flat=True)) == {"POST"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--method", "POST"), "pass repeatable=True"),
        (("--body", "1"), "A GET has no body"),
        (("--body", "@/no/such/file"), "/no/such/file cannot be read: No such file or directory"),
        (("--json-body", "{"), "must be JSON"),
        (("--json-body", "null"), "must not be null"),
        (("--form", "a"), "must be a field such as colour=blue, not 'a'"),
        (("--max-redirects", "21"), "between 0 and 20"),
    ],
)
def test_what_cannot_be_sent_queues_nothing(given: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        fetch("http://a.example/", "--no-wait", *given)
    assert urls() == []


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    """Blank lines, comments, spaces, a byte order mark and Windows line ends are not a part of the URLs."""
    file = tmp_path / "urls.txt"
    file.write_bytes(
        b"\xef\xbb\xbfhttp://a.example/1\r\n\n  # a comment\n\t http://a.example/2 \n#http://no.example\nhttp://a.example/3"
    )
    assert fetch("--file", str(file), "--no-wait")[0] == 0
    assert urls() == [f"http://a.example/{number}" for number in (1, 2, 3)]


def test_a_line_that_is_no_text_fails_alone(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 make one failed fetch, which says why; the lines around it are queued."""
    file = tmp_path / "urls.txt"
    file.write_bytes(b"http://a.example/1\nhttp://a.example/\xff\xfe\nhttp://a.example/3\n")
    status, output, _ = fetch("--file", str(file), "--no-wait", "--json")
    told = json.loads(output)
    assert (status, told["failed"], told["unfinished"]) == (1, 1, 2)
    assert told["failures"][0]["error"] == "the URL contains the byte 0xFF, which is not UTF-8 there"


def test_stdin_is_queued_while_it_is_still_being_written(start_python: StartPython, eventually: Eventually) -> None:
    """`-` reads stdin in chunks: a chunk is queued before the next is read, so a long file needs no memory."""
    script = """
from django.core.management import call_command
from weir.workers.fetches.management.commands import fetch
fetch.CHUNK = 2
call_command("fetch", "-", "--no-wait", "--json")
"""
    process = start_python(script)
    assert process.stdin is not None
    process.stdin.write("http://a.example/1\n# note\nhttp://a.example/2\n")
    process.stdin.flush()
    eventually(lambda: len(urls()) == 2, "the first chunk")
    output, _ = process.communicate("http://a.example/3\n")
    assert (process.returncode, json.loads(output)["fetches"]) == (0, 3)
    assert urls() == [f"http://a.example/{number}" for number in (1, 2, 3)]


def test_what_is_refused_at_once_is_told_with_its_reason() -> None:
    """A URL that cannot be fetched ends failed when it is queued: exit status 1, and the reason in the summary."""
    status, output, _ = fetch("ftp://a.example/", "http://a.example/", "--no-wait")
    assert status == 1
    assert "failed: ftp://a.example/: the scheme 'ftp' is not fetched: only http and https are" in output


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Give URLs to fetch, or --file FILE, or - for stdin."),
        (["http://a.example/", "--file", "urls.txt"], "only one of them"),
        (["http://a.example/", "-"], "only one of them"),
        (["--file", "/nowhere/urls.txt"], "/nowhere/urls.txt cannot be read: No such file or directory."),
        (["--file", "/dev/null", "--no-wait"], "No URL came: nothing was queued."),
        (["http://a.example/", "--no-wait", "--priority=99999"], "priority must be between"),
        (["http://a.example/", "--timeout=nan"], "--timeout: 'nan' is not a length of time"),
        (["http://a.example/", "--timeout=-1"], "--timeout: '-1' is not a length of time"),
        (["http://a.example/", "--timeout=inf"], "--timeout: 'inf' is not a length of time"),
        (
            ["http://a.example/", "--no-wait", "--priority=high"],
            "argument --priority: must be a whole number, not 'high'",
        ),
        (
            ["http://a.example/", "--no-wait", "--max-attempts=40000"],
            "max_attempts must be between 1 and 32767, not 40000.",
        ),
        (
            ["http://a.example/", "--no-wait", "--max-attempts=0"],
            "--max-attempts: must be a whole number above 0, not '0'",
        ),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(arguments: list[str], sentence: str) -> None:
    """One sentence says what the command cannot do, and nothing is queued."""
    with pytest.raises(CommandError) as refusal:
        fetch(*arguments)
    assert sentence in str(refusal.value)
    assert not Fetch.objects.exists()


# --- workers --------------------------------------------------------------------------------------


def test_without_workers_nothing_is_queued() -> None:
    """Asked over the real broker, where no worker runs: the command names the queues and what to start."""
    with pytest.raises(CommandError) as refusal:
        fetch("http://a.example/")
    for text in (
        "queue weir.ticks and the queue weir.fetch",
        "`make up`",
        "weir.ticks",
        "weir.fetch",
        "--no-wait",
    ):
        assert text in str(refusal.value)
    assert not Fetch.objects.exists()


@pytest.mark.parametrize(
    ("consumed", "missing"),
    [
        ({"a@x": ["weir.ticks"], "b@x": ["weir.fetch"]}, []),
        ({"a@x": ["weir.ticks", "weir.fetch"]}, []),
        ({"a@x": ["weir.ticks", "other"]}, ["weir.fetch"]),
        (None, ["weir.ticks", "weir.fetch"]),
    ],
)
def test_each_queue_needs_a_worker(
    consumed: dict[str, list[str]] | None, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue counts as served when one of the workers that answer consumes it; no answer means no worker."""

    class Inspect:
        def __init__(self, **_options: Any) -> None:
            pass

        def active_queues(self) -> dict[str, list[dict[str, str]]] | None:
            if consumed is None:
                return None
            return {worker: [{"name": name} for name in names] for worker, names in consumed.items()}

    monkeypatch.setattr(app.control, "inspect", Inspect)
    assert consumers.unserved_queues("weir.ticks", "weir.fetch") == missing


# --- watching -------------------------------------------------------------------------------------


def test_it_waits_for_the_end_and_tells_how_it_was(between_looks: Callable[[Callable[[], None]], None]) -> None:
    """The command looks until all have ended, and sums up states, status codes and failures."""

    def go_on() -> None:
        end(2, FetchState.DONE, status_code=200)
        end(1, FetchState.FAILED, status_code=503, error="the site answered 503 (attempt 1 of 1)")

    between_looks(go_on)
    status, output, _ = fetch(*(f"http://a.example/{number}" for number in range(6)))
    lines = [line.split() for line in output.splitlines()]
    assert status == 1
    first, last = Fetch.objects.order_by("pk").values_list("pk", flat=True)[0:6:5]
    assert lines[0][:2] == ["6", "fetches"]
    assert lines[0][-2:] == ["ids", f"{first}-{last}"]
    assert lines[1] == ["4", "done", "200", "x", "4"]
    assert lines[2] == ["2", "failed", "503", "x", "2"]
    assert output.splitlines()[3] == "failed: http://a.example/2: the site answered 503 (attempt 1 of 1)"


def test_one_fetch_comes_with_its_id_and_the_next_command(
    between_looks: Callable[[Callable[[], None]], None],
) -> None:
    """A new user who fetched one page wants to see it."""
    between_looks(lambda: end(1, FetchState.DONE, status_code=200))
    _, output, _ = fetch("http://a.example/")
    pk = Fetch.objects.get().pk
    assert output.splitlines()[0].endswith(f": id {pk}")
    assert output.splitlines()[-1] == f"`manage.py fetches show {pk}` shows what came."


def test_what_was_not_tried_is_not_told_as_unanswered(between_looks: Callable[[Callable[[], None]], None]) -> None:
    """A text that is not a URL, and a site that did not answer, are two things."""
    between_looks(lambda: end(1, FetchState.FAILED, error="no complete answer within 30 s", attempts=5))
    _, output, _ = fetch("ftp://a.example/", "not a URL", "http://a.example/")
    assert output.splitlines()[1].split(maxsplit=2) == ["3", "failed", "not tried x 2, no answer x 1"]


def test_success_is_status_0_and_one_json_object(between_looks: Callable[[Callable[[], None]], None]) -> None:
    """With `--json`, stdout is one object with the figures, and nothing else."""
    between_looks(lambda: end(5, FetchState.DONE, status_code=404))
    status, output, errors = fetch("http://a.example/1", "http://a.example/2", "--json")
    told = json.loads(output)
    assert told.pop("seconds") > 0
    low, high = told.pop("ids")[0]
    assert high == low + 1
    assert told == {"fetches": 2, "done": 2, "failed": 0, "cancelled": 0, "unfinished": 0, "failures": []}
    assert (status, errors) == (0, "")


@pytest.mark.usefixtures("served")
def test_many_failures_are_listed_shortly_or_for_machines_in_full() -> None:
    """The summary names the first ten failures and how many more there are; `--json` names all."""
    bad = [f"ftp://a.example/{number}" for number in range(12)]
    _, output, _ = fetch(*bad)
    assert output.count("failed: ftp://") == 10
    assert "and 2 fetches more failed: --json lists all" in output
    _, output, _ = fetch(*bad, "--json")
    assert [failure["url"] for failure in json.loads(output)["failures"]] == bad


@pytest.mark.usefixtures("served")
def test_what_sites_wrote_cannot_steer_the_terminal() -> None:
    """Control characters in a stored reason are replaced where it is shown."""
    _, output, _ = fetch("ftp://a.example/\x9b31m")
    assert "\x9b" not in output


@pytest.mark.usefixtures("served")
def test_after_the_timeout_the_fetches_go_on() -> None:
    """`--timeout` ends the watching with status 124; the fetches stay queued, and the command says so."""
    status, _, errors = fetch("http://a.example/", "--timeout", "0.001")
    assert (status, Fetch.objects.get().state) == (command.TIMED_OUT, FetchState.QUEUED)
    assert errors.strip() == "Stopped watching. Still going on: 1 fetch."


def test_ctrl_c_stops_the_watching_only(between_looks: Callable[[Callable[[], None]], None]) -> None:
    """Ctrl-C ends the command with status 130, even when something failed; the fetches stay queued."""

    def interrupt() -> None:
        end(1, FetchState.FAILED, error="refused")
        raise KeyboardInterrupt

    between_looks(interrupt)
    status, _, errors = fetch("http://a.example/1", "http://a.example/2")
    assert (status, "going on: 1 fetch" in errors) == (command.INTERRUPTED, True)
    assert Fetch.objects.filter(state=FetchState.QUEUED).count() == 1


def test_ctrl_c_before_anything_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the workers are being asked ends the command with status 130, too, and no traceback."""

    def interrupt(*_: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(consumers, "unserved_queues", interrupt)
    with pytest.raises(CommandError, match="nothing was queued") as ended:
        fetch("http://a.example/")
    assert ended.value.returncode == command.INTERRUPTED


def test_when_nothing_moves_and_no_heartbeat_comes_it_asks_for_beat_once(
    between_looks: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers without beat start the first few fetches only: after a while the command says so, once."""
    looks = iter([0, 0, 1])  # how many end before the next
    between_looks(lambda: end(next(looks), FetchState.DONE, status_code=200))
    monkeypatch.setattr(command, "STALLED_AFTER", 0.0)
    _, _, errors = fetch("http://a.example/")
    assert errors.count("does beat run?") == 1


def nothing() -> None:
    """Let nothing happen."""


def refused() -> None:
    """Let the waiting fetch have been tried once."""
    Fetch.objects.filter(is_robots=False).update(error="the site answered 500", attempts=1)


def waits_for_robots() -> None:
    """Let the fetch wait for a robots.txt that was asked for in vain."""
    Fetch.objects.filter(is_robots=False).update(error="waits for http://a.example/robots.txt", due_since=Now())
    url = "http://a.example/robots.txt"
    Fetch.objects.create(
        url=url,
        hop_url=url,
        site=Site.objects.get(),
        is_robots=True,
        priority=32_767,
        error="Name or service not known",
        attempts=2,
    )


def unreachable() -> None:
    """Let the site be backed off because nothing connects."""
    refused()
    Site.objects.update(backed_off_until=Now() + timedelta(minutes=1), backoff_error="connection refused")


@pytest.mark.parametrize(
    ("happened", "state", "reason"),
    [
        (nothing, "busy", ""),
        (refused, "busy", "the site answered 500"),
        (waits_for_robots, "busy", "Name or service not known"),
        (unreachable, "unreachable", "connection refused"),
    ],
)
def test_the_watcher_says_why_a_site_waits(
    happened: Callable[[], None],
    state: str,
    reason: str,
    between_looks: Callable[[Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last error, or that of the robots.txt that is asked for first."""
    rounds: Iterator[Callable[[], None]] = iter([happened, nothing, lambda: end(2, FetchState.DONE, status_code=200)])
    watched: list[Progress] = []

    def watching(seen: Progress, _turns: Turns, **_: float) -> tuple[()]:
        watched.append(seen)
        return ()

    monkeypatch.setattr(command, "watching", watching)

    def go_on() -> None:
        next(rounds)()

    between_looks(go_on)
    fetch("http://a.example/")
    assert (watched[1].busiest[0].state, watched[1].busiest[0].error) == (state, reason)


# --- turns ----------------------------------------------------------------------------------------


def one_by_one(*happen: Callable[[], object]) -> Callable[[], None]:
    """Return what lets these things happen at one call each, and then all fetches end."""
    rounds: Iterator[Callable[[], object]] = iter([*happen, lambda: end(50, FetchState.DONE, status_code=200)])

    def go_on() -> None:
        next(rounds)()

    return go_on


@pytest.fixture
def looking(between_looks: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch) -> Looking:
    """Return a function that watches a fetch while these things happen, one after each look; returns the lines."""
    for name in ("FROM_S", "EVERY_S"):
        monkeypatch.setattr(turns, name, 0.0)
    for kind in ("fetcher", "ticks", "beat"):
        Process.objects.create(kind=kind, name=f"{kind}@host", host="host", pid=7)

    def watch(*happen: Callable[[], object]) -> list[str]:
        between_looks(one_by_one(*happen))
        return fetch("http://a.example/")[2].splitlines()

    return watch


def fail(attempt: int) -> Callable[[], object]:
    """Store that an attempt failed, so that the next one is due a minute later."""
    return lambda: Fetch.objects.filter(is_robots=False).update(
        attempts=attempt, error="no route", not_before=Now() + timedelta(minutes=1)
    )


def test_behind_the_fetches_of_others_it_says_its_turn_once(looking: Looking) -> None:
    """Not what its own fetches take; and that the watching may be ended."""
    site_settings.set_rate("a.example", "1/s")
    request_fetches([f"http://a.example/{number}" for number in range(30)])
    line, stoppable = looking(nothing, nothing)
    pk = Fetch.objects.latest("pk").pk
    assert re.fullmatch(
        rf"fetch {pk}: 30 due fetches of a.example before it, at 1/s: its turn comes in \d\ds. "
        "A higher --priority goes first.",
        line,
    )
    assert stoppable == "Ctrl-C ends only the watching: the fetches go on."


def test_which_attempt_failed_and_when_the_next_is_due_is_said_for_each(looking: Looking) -> None:
    site_settings.set_rate("a.example", "1/s")
    *_, first, second = looking(fail(1), nothing, fail(2), nothing)
    for attempt, line in enumerate((first, second), start=1):
        assert f"attempt {attempt} of 5 ended with: no route. The next attempt is due in " in line


def test_an_attempt_that_failed_is_told_of_a_fetch_that_waits_for_its_turn_again(looking: Looking) -> None:
    site_settings.set_rate("a.example", "1/m")
    site_settings.pause("a.example", timedelta(minutes=1))
    *_, line = looking(refused)
    assert "attempt 1 of 5 ended with: the site answered 500. The site a.example is paused. For another " in line


def test_what_a_robots_txt_waits_for_is_said_of_the_fetch_that_needs_it(looking: Looking, settings: Settings) -> None:
    settings.WEIR_OBEY_ROBOTS = True
    *_, line = looking(lambda: Fetch.objects.filter(is_robots=True).update(attempts=2, error="no such host"))
    assert "http://a.example/robots.txt is not known yet: fetch " in line
    assert "attempt 2 of 3 ended with: no such host." in line


def test_of_many_sites_few_are_asked_about(
    between_looks: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many URLs are watched, and not at each look."""
    asked: list[int] = []
    monkeypatch.setattr(turns, "FROM_S", 0.0)

    def noted(fetch: int) -> Why:
        asked.append(fetch)
        return why(fetch)

    monkeypatch.setattr(turns, "why", noted)
    between_looks(one_by_one(nothing, nothing))
    fetch(*(f"http://{number}.example/" for number in range(20)))
    assert len(asked) == turns.MOST


def test_the_screen_shows_the_turn_of_the_last_fetch_and_else_the_least_that_it_takes() -> None:
    site_settings.set_rate("a.example", "1/s")
    ids = FetchIds()
    ids.add(fetch.pk for fetch in request_fetches(["http://a.example/1", "http://a.example/2"]))
    known = turns.Turns()
    told = []
    for clear_at in ({}, {"a.example": time.monotonic() + 2_600}, {"a.example": math.inf}):
        known.clear_at = clear_at
        console = Console(width=200, file=StringIO())
        console.print(*watching(progress(ids, most_sites=5), known, elapsed_s=1.0))
        told.append(re.findall(r"at least 2\.0s|43m \d\ds|not known|Ctrl-C ends only", console.file.getvalue()))  # type: ignore[attr-defined]
    assert [first[:2] for first, _ in told] == ["at", "43", "no"]
    assert {last for _, last in told} == {"Ctrl-C ends only"}


# --- progress -------------------------------------------------------------------------------------


def test_fetches_of_others_are_not_counted() -> None:
    """Progress covers exactly the fetches asked about, even if others queued theirs in between."""
    ours = FetchIds()
    ours.add(fetch.pk for fetch in request_fetches(["http://a.example/1", "http://a.example/2"]))
    request_fetches(["http://a.example/theirs"])
    ours.add(fetch.pk for fetch in request_fetches(["http://a.example/3", "ftp://refused"]))
    seen = progress(ours, most_sites=5)
    assert (seen.unfinished, seen.failed, ours.count, len(ours.ranges)) == (3, 1, 4, 2)
    assert [(site.site, site.unfinished, site.ended) for site in seen.busiest] == [("a.example", 3, 0)]


def test_ids_may_come_twice_and_in_any_order() -> None:
    """Each counts once, and they are kept as few ranges, ascending and apart."""
    ids = FetchIds()
    for some in ([5, 3, 4], [], [9], [4, 7], [8, 1], [6]):
        ids.add(some)
    assert (ids.ranges, ids.count) == ([(1, 1), (3, 9)], 8)


def test_what_retention_deleted_is_not_waited_for() -> None:
    """A fetch that was deleted while it was watched is not counted, so that the watching ends."""
    ids = FetchIds()
    ids.add(fetch.pk for fetch in request_fetches(["http://a.example/1", "http://a.example/2"]))
    Fetch.objects.all().delete()
    assert progress(ids).unfinished == 0
