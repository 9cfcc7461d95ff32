"""What logs prove of an e-mail: from files to verdicts, as pure functions."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import permutations
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.verdicts import LoggedAttempt, LogOutcome, LogVerdict, Vouched, judge

OURS = "order.shipped-4711-0a1b2c3d4e5f@example.com"
SINCE = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
UNTIL = SINCE + timedelta(minutes=15)
CHANGED = UNTIL + timedelta(hours=8)  # when files of logs were
ATTEMPT = LoggedAttempt(message_id=OURS, relay="mx1:25", since=SINCE, until=UNTIL)
ALL_DAY = Vouched(
    relays=["mx1:25"],
    complete_from=datetime(2026, 11, 23, tzinfo=UTC),
    complete_until=datetime(2026, 11, 24, tzinfo=UTC),
)
QUIET = Vouched()
RELAYS: dict[str, Any] = {"relays": ["mx1:25"]}
BEFORE = "Nov 23 11:00:00 mx1 postfix/anvil[9]: statistics: max connection rate 1/60s"
OTHER = "Nov 23 12:05:00 mx1 postfix/cleanup[9]: FFFFFF1: message-id=<other@example.com>"
AFTER = "Nov 23 13:00:00 mx1 postfix/anvil[9]: statistics: max connection rate 1/60s"
AROUND = [BEFORE, OTHER, AFTER]
CLIENT = "Nov 23 12:00:01 mx1 postfix/smtpd[5]: AAAAAA1: client=web[10.0.0.1]"
NAMED = f"Nov 23 12:00:01 mx1 postfix/cleanup[6]: AAAAAA1: message-id=<{OURS}>"
ACTIVE = "Nov 23 12:00:02 mx1 postfix/qmgr[7]: AAAAAA1: from=<shop@example.com>, size=1, nrcpt=1 (queue active)"
REMOVED = "Nov 23 12:00:03 mx1 postfix/qmgr[7]: AAAAAA1: removed"
LEFT = "Nov 23 12:00:02 mx1 postfix/smtpd[5]: lost connection after DATA (40 bytes) from web[10.0.0.1]"
LEFT_BY_ID = LEFT.replace("lost", "AAAAAA1: lost")  # since Postfix 3.10
LEFT_LATE = "Nov 23 12:00:02 mx1 postfix/smtpd[5]: lost connection after END-OF-MESSAGE from web[10.0.0.1]"
REJECTED = "Nov 23 12:00:02 mx1 postfix/cleanup[6]: AAAAAA1: milter-reject: END-OF-MESSAGE from web[10.0.0.1]: 4.7.1"
START = "Nov 23 12:10:00 mx1 postfix/master[{}]: daemon started -- version 3.7.11, configuration /etc/postfix"
SUPPRESSED = "Nov 23 12:10:00 mx1 systemd-journald[1]: Suppressed 53 messages from postfix.service"
RATE_LIMITED = "Nov 23 12:10:00 mx1 rsyslogd: imuxsock lost 53 messages from pid 5 due to rate-limiting"
STOP = "Nov 23 12:09:59 mx1 postfix/master[1]: terminating on signal 15"
Write = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files of lines; returns their names."""

    def written(*logs: list[str]) -> list[str]:
        names = []
        for number, lines in enumerate(logs):
            path = tmp_path / f"mail.log.{number}"
            path.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")
            names.append(str(path))
        return names

    return written


def verdict(names: list[str], vouched: Vouched = ALL_DAY, attempt: LoggedAttempt = ATTEMPT) -> LogVerdict:
    return judge(attempt, read(names), vouched)


def read(names: list[str], zone: tzinfo = UTC) -> reading.Logs:
    with files.opened(names) as opened:
        stamped = [replace(file, changed=CHANGED) for file in opened]
        return reading.read(stamped, [OURS], zone)


@pytest.mark.parametrize("vouched", [ALL_DAY, QUIET])
@pytest.mark.parametrize("proof", [ACTIVE, REMOVED])
def test_what_the_queue_took_is_accepted_and_its_line_is_kept(write: Write, vouched: Vouched, proof: str) -> None:
    """Nobody has to vouch for what a log has, nor need it have all lines."""
    assert verdict(write([CLIENT, NAMED, proof]), vouched) == LogVerdict(outcome=LogOutcome.ACCEPTED, why=proof)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_neither_the_order_of_files_nor_of_programs_matters(write: Write, order: tuple[int, ...]) -> None:
    """The line of the queue may stand in a file that is read before the one that names the e-mail."""
    names = write([CLIENT, BEFORE], [NAMED, AFTER], [ACTIVE, OTHER])
    assert verdict([names[number] for number in order]).outcome is LogOutcome.ACCEPTED


@pytest.mark.parametrize(
    ("lines", "outcome", "words"),
    [
        ([], LogOutcome.NOT_ACCEPTED, "not in the logs"),
        ([CLIENT, NAMED, LEFT], LogOutcome.NOT_ACCEPTED, "lost connection after DATA"),
        ([CLIENT, LEFT, NAMED.replace("12:00:01", "12:00:03")], LogOutcome.NOT_ACCEPTED, "lost connection after DATA"),
        ([CLIENT, NAMED, LEFT_BY_ID], LogOutcome.NOT_ACCEPTED, "lost connection after DATA"),
        ([CLIENT, NAMED, LEFT_BY_ID.replace("AAAAAA1", "NOQUEUE")], LogOutcome.STILL_UNKNOWN, "Queue id AAAAAA1"),
        ([CLIENT, NAMED, REJECTED], LogOutcome.NOT_ACCEPTED, "milter-reject"),
        ([CLIENT, NAMED, LEFT_LATE], LogOutcome.STILL_UNKNOWN, "--queue-empty"),
        ([CLIENT, NAMED], LogOutcome.STILL_UNKNOWN, "Queue id AAAAAA1"),
        ([CLIENT, NAMED, LEFT_LATE, ACTIVE], LogOutcome.ACCEPTED, "queue active"),
        # The queue id was another e-mail's before, and will be another one's afterwards.
        ([CLIENT, ACTIVE, REMOVED, CLIENT.replace("12:00:01", "12:01:00"), NAMED.replace("12:00:01", "12:01:00"),
          LEFT.replace("12:00:02", "12:01:01")], LogOutcome.NOT_ACCEPTED, "lost connection"),
        ([CLIENT, NAMED, LEFT, CLIENT.replace("12:00:01", "12:01:00"), ACTIVE.replace("12:00:02", "12:01:00")],
         LogOutcome.NOT_ACCEPTED, "lost connection"),
        # One logger writes microseconds, another one seconds, a third one is late.
        ([CLIENT.replace("Nov 23 12:00:01", "2026-11-23T12:00:02.7Z"), NAMED.replace("12:00:01", "12:00:02"), ACTIVE],
         LogOutcome.ACCEPTED, "queue active"),
        ([ACTIVE, *(line.replace("Nov 23 12:00:01", "2026-11-23T12:00:02.7Z") for line in (CLIENT, NAMED))],
         LogOutcome.ACCEPTED, "queue active"),
        ([ACTIVE, CLIENT.replace("12:00:01", "12:00:20"), NAMED.replace("12:00:01", "12:00:20")],
         LogOutcome.STILL_UNKNOWN, "seems to be older"),
        # Another client of the same process left.
        ([CLIENT, NAMED, CLIENT.replace("AAAAAA1", "BBBBBB1"), LEFT], LogOutcome.STILL_UNKNOWN, "Queue id AAAAAA1"),
        # Another process' client left.
        ([CLIENT, NAMED, LEFT.replace("[5]", "[55]")], LogOutcome.STILL_UNKNOWN, "Queue id AAAAAA1"),
        # What Postfix itself sends begins with its Message-ID.
        ([CLIENT, NAMED, LEFT, NAMED.replace(OURS, "bounce@mx1").replace("12:00:01", "12:00:03"),
          ACTIVE.replace("12:00:02", "12:00:03")], LogOutcome.NOT_ACCEPTED, "lost connection"),
        # Accepted, but before this attempt began: an operator had it sent again.
        ([line.replace("12:00", "11:30") for line in (CLIENT, NAMED, ACTIVE)], LogOutcome.STILL_UNKNOWN, "earlier"),
        # An earlier attempt of the same Message-ID was refused, this one accepted.
        ([CLIENT.replace("12:00", "11:58"), NAMED.replace("12:00", "11:58"), REJECTED.replace("12:00", "11:58"),
          CLIENT, NAMED, ACTIVE], LogOutcome.ACCEPTED, "queue active"),
        # A line that may mean ours.
        ([NAMED.replace("-0a1b", "?0a1b")], LogOutcome.STILL_UNKNOWN, "has its Message-ID"),
        ([NAMED.replace("@example.com>", "")], LogOutcome.STILL_UNKNOWN, "has its Message-ID"),
        # The Message-ID stands behind the header by which the server threw it away.
        (["Nov 23 12:00:02 mx1 postfix/cleanup[6]: CCCCCC1: discard: header Subject: a from web[10.0.0.1]; x"],
         LogOutcome.STILL_UNKNOWN, "discarded"),
        ([CLIENT, NAMED, "Nov 23 12:00:02 mx1 postfix/cleanup[6]: AAAAAA1: milter-discard: END-OF-MESSAGE from web"],
         LogOutcome.ACCEPTED, "milter-discard"),
    ],
)  # fmt: skip
def test_what_lines_of_a_complete_log_prove(write: Write, lines: list[str], outcome: LogOutcome, words: str) -> None:
    """Each line counts for the one e-mail that had its queue id then."""
    found = verdict(write([BEFORE, *lines, OTHER, AFTER]))
    assert found.outcome is outcome
    assert words in found.why


def test_an_empty_queue_tells_that_what_came_in_was_not_kept(write: Write) -> None:
    """What is committed is delivered, returned or removed, with a line: else it would still be in the queue."""
    seen = Vouched(
        complete_from=ALL_DAY.complete_from, complete_until=ALL_DAY.complete_until, relays=["mx1:25"], queue_empty=True
    )
    assert verdict(write([BEFORE, CLIENT, NAMED, LEFT_LATE, OTHER, AFTER]), seen).outcome is LogOutcome.NOT_ACCEPTED
    assert verdict(write([BEFORE, CLIENT, NAMED, ACTIVE, OTHER, AFTER]), seen).outcome is LogOutcome.ACCEPTED


@pytest.mark.parametrize(
    ("lines", "changed", "words"),
    [
        (AROUND, {"complete_from": None}, "no option says that they are complete"),
        (AROUND, {"complete_until": None}, "no option says that they are complete"),
        (AROUND, {"relays": ["mx9:25"]}, "it went to mx1:25"),
        (AROUND, {"complete_from": SINCE}, "would have to be complete from 2026-11-23 11:55:00"),
        (AROUND, {"complete_until": UNTIL}, "until 2026-11-23 12:20:00"),
        ([], {}, "no line of a mail server"),
        ([OTHER, AFTER], {}, "begin at 2026-11-23 12:05:00"),
        ([BEFORE, OTHER], {}, "end at 2026-11-23 12:05:00"),
        ([BEFORE, AFTER], {}, "logged no Message-ID at all"),
        ([*AROUND, BEFORE.replace("mx1", "mx2"), OTHER.replace("mx1", "mx2")], {}, "those of mx2 end"),
        (AROUND, {"hosts": ("mx1", "mx3")}, "no line of mx3 was found"),
        ([BEFORE, OTHER, START.format(2), AFTER], {}, "without having been stopped"),
        ([BEFORE, OTHER, SUPPRESSED, AFTER], {}, "lost"),
        ([BEFORE, OTHER, RATE_LIMITED, AFTER], {}, "lost"),
        ([BEFORE, OTHER, "-- Boot 1f8d --", AFTER], {}, "the machine was started"),
    ],
)  # fmt: skip
def test_the_absence_of_a_line_proves_nothing_where_lines_may_be_missing(
    write: Write, lines: list[str], changed: dict[str, Any], words: str
) -> None:
    """Whoever vouches is outweighed by what the log itself shows."""
    vouched = {"complete_from": ALL_DAY.complete_from, "complete_until": ALL_DAY.complete_until, **RELAYS, **changed}
    found = verdict(write(lines), Vouched(**vouched))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert words in found.why


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        ([STOP, START.format(2)], {}),  # a restart in good order
        ([START.format(2)], {"survived_crashes": True}),
        ([OTHER.replace("12:05", "12:30"), START.format(2).replace("12:10:00", "12:40:00")], {}),  # another time
        ([BEFORE.replace("mx1", "mx2")], {"hosts": ("mx1",)}),
    ],
)
def test_what_is_no_gap_or_vouched_for_leaves_the_log_complete(
    write: Write, lines: list[str], changed: dict[str, Any]
) -> None:
    """The counterpart: these do not keep an e-mail unknown."""
    vouched = {"complete_from": ALL_DAY.complete_from, "complete_until": ALL_DAY.complete_until, **RELAYS, **changed}
    logs = write(sorted([*AROUND, *lines], key=lambda line: line[:15]))
    assert verdict(logs, Vouched(**vouched)).outcome is LogOutcome.NOT_ACCEPTED


def test_the_hour_that_comes_twice_proves_nothing(write: Write) -> None:
    """Its lines have one of two times."""
    [name] = write([OTHER.replace("Nov 23 12:05:00", "Oct 25 02:30:00"), BEFORE, AFTER])
    gaps = {zone: list(read([name], ZoneInfo(zone)).coverage["mx1"].gaps) for zone in ("UTC", "Europe/Berlin")}
    assert gaps["UTC"] == []
    assert [gap.why for gap in gaps["Europe/Berlin"]] == ["the clock was set back then"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """By what they are, whatever they are called."""
    path = tmp_path / "mail.log.2"
    path.write_bytes(pack(f"{CLIENT}\n{NAMED}\n{ACTIVE}".encode()))
    assert verdict([str(path)]).outcome is LogOutcome.ACCEPTED


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    """Whoever names it believes that it counts."""
    with pytest.raises(files.CannotBeRead, match="No such file"):
        verdict([str(tmp_path / "none")])


def test_what_is_not_understood_is_counted_and_shown(write: Write) -> None:
    """Never an error; lines of other programs are no puzzle."""
    logs = read(write([*AROUND, "what is this \udcff", "", "Nov 23 12:00:00 mx1 dovecot: imap: x"]))
    assert (logs.lines, logs.not_understood, logs.of_other_programs) == (6, 1, 1)
    assert logs.samples == ["what is this \udcff"]


def test_exim_accepts_at_once(write: Write) -> None:
    """Its mainlog names no host, and stands for the one that there is."""
    exim = [
        "2026-11-23 11:00:00 Start queue run: pid=1",
        "2026-11-23 12:05:00 1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=1 id=other@example.com",
        "2026-11-23 13:00:00 End queue run: pid=1",
    ]
    arrived = f"2026-11-23 12:00:02 1rABCC-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=1 id={OURS}"
    assert verdict(write(exim)).outcome is LogOutcome.NOT_ACCEPTED
    assert verdict(write([*exim, arrived])) == LogVerdict(outcome=LogOutcome.ACCEPTED, why=arrived)
