"""A fetcher works as a whole: if one of its parts fails or hangs, the process ends, and says which part it was."""

import os
import signal
import subprocess
import time

import pytest

from tests.integration.conftest import Eventually, Process, StartPython
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.processes.ending import EX_SOFTWARE

pytestmark = pytest.mark.django_db(transaction=True)

ENDS_WITHIN_S = 10
# A fetcher to which something happens; it writes a line once it runs.
RUN = """
import time
from django.test import override_settings
os.dup2(1, 2)
override_settings(WEIR_STATEMENT_TIMEOUT=1).enable()
from weir.workers.fetches.fetcher import parts
from weir.workers.processes import ending
{patience}
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.results.writer import Writer
from weir.workers.fetches.fetcher.recall_watcher import RecallWatcher

def out_of_memory(*_arguments):
    raise MemoryError("no more")

def hang(*_arguments):
    time.sleep(60)

{before}
fetcher = Fetcher()
print("runs", flush=True)
{after}
time.sleep(60)
"""


def run(start_python: StartPython, *, patience: str = "", before: str = "", after: str = "") -> Process:
    script = RUN.format(patience=patience, before=before, after=after)
    return start_python(script)


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("writer", {"before": "Writer._judge_what_came = out_of_memory"}),
        ("recall-watcher", {"before": "RecallWatcher._wait = out_of_memory"}),
        ("loop", {"after": "fetcher._on_loop(out_of_memory)"}),
        ("loop", {"after": "fetcher._on_loop(hang)"}),
        ("claimer", {"patience": "ending.SPARE_S = 2", "after": "fetcher._claimer.submit(hang)"}),
        ("claimer", {"after": "fetcher._claimer.leave(out_of_memory)"}),
        ("writer", {"patience": "ending.SPARE_S = 2", "after": "fetcher._writer._judge_what_came = hang"}),
    ],
)
def test_a_part_that_fails_or_hangs_ends_the_process(
    start_python: StartPython, part: str, fault: dict[str, str]
) -> None:
    """The exit status is an error's, and the last line of the log names the part."""
    process = run(start_python, **fault)
    began_at = time.monotonic()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == EX_SOFTWARE
    assert f'"part": "{part}"' in output or f"'part': '{part}'" in output, output
    assert "fetcher_ends" in output
    assert time.monotonic() - began_at < ENDS_WITHIN_S + 5  # it has to start first


def test_a_part_whose_log_nobody_reads_ends_the_process(start_python: StartPython) -> None:
    """If the log's reader has stopped, and its pipe is full, the last line cannot be written: it ends without it."""
    full = "os.set_blocking(2, False)\ntry:\n    while True: os.write(2, b'x' * 65536)\nexcept BlockingIOError: pass\n"
    after = f"import os\nos.dup2(os.pipe()[1], 2)\n{full}os.set_blocking(2, True)\nfetcher._on_loop(out_of_memory)"
    process = run(start_python, after=after)
    assert process.wait(ENDS_WITHIN_S) != 0


def test_statements_that_end_by_their_time_out_are_no_hanging(
    start_python: StartPython, eventually: Eventually
) -> None:
    """A table may be locked for longer than a statement may take: the claimer's second attempt is a new turn."""
    sleep = """
from django.db import connection
from weir.workers.fetches.fetcher.claim import reconnecting
def sleep():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")
fetcher._claimer.submit(reconnecting, sleep).exception()
print("tried twice", flush=True)
"""
    process = run(start_python, patience="ending.SPARE_S = 0.5\nending.LOOK_EVERY_S = 0.1", after=sleep)
    eventually(lambda: process.stdout and process.stdout.readline() == "runs\n", "the fetcher to run")
    eventually(lambda: process.stdout and "tried twice" in process.stdout.readline(), "the second attempt")


def test_a_process_that_stood_still_goes_on(start_python: StartPython, eventually: Eventually) -> None:
    """A process that was stopped, or a machine that was suspended, for longer than any patience has no hanging part."""
    process = run(start_python, patience="parts.LOOP_PATIENCE_S = ending.SPARE_S = 3")
    eventually(lambda: process.stdout and process.stdout.readline() == "runs\n", "the fetcher to run")
    os.kill(process.pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    eventually(lambda: time.monotonic() > stopped_at + 7, "longer than any patience")
    os.kill(process.pid, signal.SIGCONT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)


def test_a_fetcher_that_is_closed_leaves_no_thread_behind(eventually: Eventually) -> None:
    """Its parts end in order; nothing ends the process."""
    made = Fetcher()
    parts = [made._loop_part, made._claimer.part, made._writer.part, made._recall_watcher.part]
    assert all(part.is_alive() for part in parts)
    made.close(1.0)
    eventually(lambda: not any(part.is_alive() for part in parts), "the parts to end")
