import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import pluralize

from weir.workers import consumers, heartbeats
from weir.workers.cli import terminal
from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.arguments import at_least_one, from_zero, header, reference, seconds, share, whole_number
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.management.bodies import body, form_field, json_body
from weir.workers.fetches.management.screen import Screen, queueing, watching
from weir.workers.fetches.management.turns import Turns
from weir.workers.fetches.methods import METHODS, USUAL_REDIRECTS
from weir.workers.fetches.reports.progress import EndedCount, FetchIds, Progress, endings, failures, progress

CHUNK = 10_000  # URLs in one call of request_fetches
LOOK_EVERY = 0.25  # seconds
LOOKING_SHARE = 0.1  # the share of the time, at most, that the command spends on looking
SITES_SHOWN = 12
FAILURES_SHOWN = 10
RANGES_SHOWN = 5
STALLED_AFTER = 10.0  # seconds in which no fetch ends before the command looks for the cause
FAILED, TIMED_OUT, INTERRUPTED = 1, 124, 130  # exit statuses; 124 is that of timeout(1)

GIVEN = (
    "priority", "max_attempts", "headers", "dedupe", "method", "body", "form", "repeatable", "max_redirects",
    "share", "reference",
)  # fmt: skip
NEEDED = ("weir.ticks", "weir.fetch")  # queues
STALLED = (
    "Nothing ended for a while, and no heartbeat came for minutes: does beat run? `make up` runs it beside all others, "
    "or run what `manage.py weir_processes` prints."
)


class Command(ExactCommand):
    examples = (
        "https://example.com/ https://example.com/about",
        "--file urls.txt --priority 10 --max-attempts 3",
        "- --json --timeout 10m < urls.txt",
        "--file urls.txt --no-wait",
        "https://api.example.com/orders --method POST --repeatable --json-body '{\"item\": 7}'",
    )
    help = (
        "Queue URLs, watch them being fetched at the rates of their sites, and say how they ended. "
        "Exit status: 0; 1 when one failed; 124 after --timeout; 130 after Ctrl-C (the fetches go on)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("urls", nargs="*", metavar="URL", help="URLs, or - to read them from stdin")
        parser.add_argument("--file", help="read URLs from it: one a line; blank lines and # comments are ignored")
        parser.add_argument(
            "--priority", type=whole_number, default=0, help="higher goes first within a site, up to 32766 (default 0)"
        )
        parser.add_argument(
            "--max-attempts", type=at_least_one, default=5, help="for errors, refusals, 5xx (default 5)"
        )
        parser.add_argument(
            "--dedupe",
            action="store_true",
            help="do not queue a URL whose fetch of an earlier --dedupe has not ended: watch that",
        )
        parser.add_argument(
            "--header",
            type=header,
            action="append",
            dest="headers",
            metavar="'NAME: VALUE'",
            help="a header of the requests, beside those of the site; repeat it for more",
        )
        parser.add_argument(
            "--method", type=str.upper, choices=METHODS, default="GET", help="of the requests (default GET)"
        )
        parser.add_argument(
            "--repeatable",
            action="store_true",
            help="a POST, PUT, PATCH or DELETE may be sent more than once, with the same Idempotency-Key",
        )
        parser.add_argument("--body", metavar="TEXT|@FILE", type=body, help="the body of the requests")
        parser.add_argument("--json-body", metavar="TEXT|@FILE", type=json_body, help="the body, checked to be JSON")
        parser.add_argument(
            "--form",
            type=form_field,
            action="append",
            metavar="NAME=VALUE",
            help="a field of a form, which is the body; repeat it for more",
        )
        parser.add_argument(
            "--max-redirects", type=from_zero, default=USUAL_REDIRECTS, help="to follow; 0: a redirect is the result"
        )
        parser.add_argument(
            "--share", type=share, metavar="NAME", help="whose they are: the shares of a site take turns"
        )
        parser.add_argument(
            "--reference", type=reference, metavar="TEXT", help="what you call them: lists find them by it"
        )
        parser.add_argument("--no-wait", action="store_true", help="queue them and return; needs no workers")
        parser.add_argument(
            "--timeout", type=seconds, metavar="10m", help="stop watching after so long; the fetches go on"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout, at the end")

    def handle(self, *_args: object, **options: Any) -> None:
        ids, status, began_at = FetchIds(), 0, time.monotonic()
        with _lines(options["urls"], options["file"]) as urls:
            try:
                if not options["no_wait"]:
                    _require_workers()
                    began_at = time.monotonic()
                with Screen() as screen:
                    given = {name: options[name] for name in GIVEN} | {"json": options["json_body"]}
                    _queue(urls, ids, screen, **given)
                    if not options["no_wait"] and not self._watch(ids, screen, began_at, options["timeout"]):
                        status = TIMED_OUT
            except KeyboardInterrupt:
                status = INTERRUPTED
        elapsed_s = time.monotonic() - began_at
        if not ids.count:
            raise CommandError("No URL came: nothing was queued.", returncode=status or FAILED)
        seen = progress(ids)
        if options["json"]:
            self.stdout.write(_as_json(ids, seen, elapsed_s))
        else:
            self.stdout.write("\n".join(_as_text(ids, seen, elapsed_s)))
        if status and seen.unfinished:
            self.stderr.write(f"Stopped watching. Still going on: {_fetches(seen.unfinished)}.")
        if seen.failed and status != INTERRUPTED:
            status = FAILED
        if status:
            sys.exit(status)

    def _watch(self, ids: FetchIds, screen: Screen, began_at: float, timeout: float | None) -> bool:
        """Show the progress until all fetches have ended; returns False when that takes longer than `timeout`."""
        give_up_at = began_at + (math.inf if timeout is None else timeout)
        stall, turns = Stall(), Turns()
        while True:
            asked_at = time.monotonic()
            seen = progress(ids, most_sites=SITES_SHOWN)
            news = [*turns.look(seen), *stall.reasons(seen)]
            screen.show(*watching(seen, turns, elapsed_s=time.monotonic() - began_at))
            if not seen.unfinished:
                return True
            for sentence in news:
                self.stderr.write(sentence)
            now = time.monotonic()
            if now >= give_up_at:
                return False
            time.sleep(min(give_up_at - now, max(LOOK_EVERY, (now - asked_at) / LOOKING_SHARE)))


class Stall:
    """Notices once that no fetch has ended for a while because beat does not run."""

    def __init__(self) -> None:
        self._unfinished = -1
        self._moved_at = math.inf

    def reasons(self, seen: Progress) -> list[str]:
        """Return a sentence if no fetch has ended for a while, and beat is silent; once until another one ends."""
        if seen.unfinished != self._unfinished:
            self._unfinished, self._moved_at = seen.unfinished, time.monotonic()
        if time.monotonic() - self._moved_at < STALLED_AFTER:
            return []
        found = [STALLED] * bool(heartbeats.silent_queues())
        self._moved_at = math.inf if found else time.monotonic()
        return found


@contextmanager
def _lines(urls: Sequence[str], file: str | None) -> Iterator[Iterable[str]]:
    """Yield the URLs one by one: the arguments, or the lines of a file or of stdin."""
    if (file is not None and urls) or ("-" in urls and len(urls) > 1):
        raise CommandError("Give URLs, or --file FILE, or - for stdin: only one of them.")
    if file is None and not urls:
        raise CommandError("Give URLs to fetch, or --file FILE, or - for stdin.")
    if file is None and urls != ["-"]:
        yield urls
        return
    with _opened(file or "-") as text:
        yield (line for line in map(str.strip, text) if line and not line.startswith("#"))


def _opened(file: str) -> TextIO:
    # A line that is not UTF-8 is not a URL, either: request_fetches says so of that line alone.
    encoding, errors = "utf-8-sig", "surrogateescape"
    if file == "-":
        return open(0, encoding=encoding, errors=errors, closefd=False)
    try:
        return Path(file).open(encoding=encoding, errors=errors)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error


def _require_workers() -> None:
    if not (unserved := consumers.unserved_queues(*NEEDED)):
        return
    raise CommandError(
        f"No worker consumes the queue {' and the queue '.join(unserved)}, so nothing was queued: start "
        "all processes with `make up`, or what `manage.py weir_processes` prints; or queue for later with --no-wait."
    )


def _queue(urls: Iterable[str], ids: FetchIds, screen: Screen, **given: Any) -> None:
    remaining = iter(urls)
    while chunk := list(islice(remaining, CHUNK)):
        try:
            fetches = request_fetches(chunk, **given)
        except (TypeError, ValueError) as error:
            raise CommandError(str(error)) from error
        ids.add(fetch.pk for fetch in fetches)
        screen.show(queueing(ids.count))


def _as_json(ids: FetchIds, seen: Progress, elapsed_s: float) -> str:
    return json.dumps(
        {
            "fetches": ids.count,
            "done": seen.done,
            "failed": seen.failed,
            "cancelled": seen.cancelled,
            "unfinished": seen.unfinished,
            "seconds": round(elapsed_s, 3),
            "ids": ids.ranges,
            "failures": [{"url": url, "error": error} for url, error in failures(ids)],
        }
    )


def _as_text(ids: FetchIds, seen: Progress, elapsed_s: float) -> Iterator[str]:
    ranges = [f"{low}-{high}" if low < high else f"{low}" for low, high in ids.ranges[:RANGES_SHOWN]]
    more = ", ..." if len(ids.ranges) > RANGES_SHOWN else ""
    ended_in = "" if seen.unfinished else f" in {terminal.span(elapsed_s)}, {ids.count / elapsed_s:,.1f}/s"
    yield f"{_fetches(ids.count)}{ended_in}: id{pluralize(ids.count)} {', '.join(ranges)}{more}"
    ended = endings(ids)
    for state in ("done", "failed", "cancelled"):
        if number := getattr(seen, state):
            ways = [f"{_way(ending)} x {ending.fetches:,}" for ending in ended if ending.state == state]
            yield f"{number:>9,} {state:<9}  {', '.join(ways)}"
    if seen.unfinished:
        yield f"{seen.unfinished:>9,} queued or running"
    for url, error in failures(ids, FAILURES_SHOWN):
        yield f"failed: {terminal.printable(url)}: {terminal.printable(error)}"
    if seen.failed > FAILURES_SHOWN:
        yield f"and {_fetches(seen.failed - FAILURES_SHOWN)} more failed: --json lists all"
    if ids.count == seen.done == 1:
        yield f"`manage.py fetches show {ranges[0]}` shows what came."


def _way(ending: EndedCount) -> str:
    if ending.status_code:
        return str(ending.status_code)
    return "no answer" if ending.was_tried else "not tried"


def _fetches(number: int) -> str:
    return f"{number:,} fetch{pluralize(number, 'es')}"
