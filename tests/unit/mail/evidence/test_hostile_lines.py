"""Lines that strangers can shape take not much longer than shorter ones with as much in them: subjects, addresses."""

from functools import partial
from pathlib import Path

import pytest

from tests.proportion import times_as_long
from tests.unit.mail.evidence.test_formats import saved
from tests.unit.mail.evidence.test_verdicts import read

LENGTH = 30_000
ORDINARY = "The quick brown fox jumps over the lazy dog. "
SHORTER = 30  # times as many lines, of which each is as much shorter
LONGEST = 10.0  # times as long as those with ORDINARY in them
BEGINNINGS = (
    "",
    "Nov 23 12:00:01 mx1 app[7]: ",
    "Nov 23 12:00:01 mx1 postfix/cleanup[7]: AAAAAA1: ",
    "2026-11-23 12:00:01 1rABCD-0005xY-1Z <= ",
    "<22>1 2026-11-23T12:00:01Z mx1 app 7 - ",
    "2026-11-23T12:00:01.5Z stdout F ",
    '{"__REALTIME_TIMESTAMP":"1795435323000000","MESSAGE":"',
    "mail-1 | ",
)
PIECES = (
    *(
        "12:00:00",
        "12:00:00 ",
        "12:00:00 a ",
        "a/",
        "a.",
        "-",
        "<22>",
        '[a b="',
        '[a b="c"]',
        '\\"',
        "\\",
        "{",
        "[",
        "|",
        "a |",
    ),
    *(
        "imuxsock ",
        "imuxsock",
        "queue file ",
        "error copying ",
        "Failed to write ",
        "Journal file ",
        "dropped='",
        "syslogd",
    ),
    *(
        'origin software="rsyslogd"',
        "action '",
        " P=local",
        " P=local S=1",
        " S=1",
        " S=1 RT=1",
        " id=",
        "message-id=<",
    ),
    *("0a1b2c3d4e5f", "0", "A1", " ", "\t", "\x1b[1", "Nov 23 ", "[1/2] "),
)


@pytest.mark.parametrize("piece", PIECES)
def test_no_line_takes_long(tmp_path: Path, piece: str) -> None:
    """Whatever is repeated in it, and wherever it stands."""
    hostile, ordinary = saved(tmp_path, filled(piece, LENGTH), SHORTER * filled(ORDINARY, LENGTH // SHORTER))
    assert times_as_long(partial(read, [hostile]), partial(read, [ordinary]), LONGEST) < LONGEST


def filled(piece: str, length: int) -> list[str]:
    """Return lines that consist of this piece, with each of the beginnings."""
    text = (piece * (length // len(piece)))[:length]
    return [beginning + end for beginning in BEGINNINGS for end in (text, f"x{text}!")]
