"""From when to when lines may be missing: no less than that, and not much more."""

import gzip
import io
import os
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.mail.evidence.test_formats import FORMATS, nanoseconds, others, saved, syslog
from tests.unit.mail.evidence.test_verdicts import AFTER, AROUND, BEFORE, OTHER, SINCE, SUPPRESSED, read, verdict
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.verdicts import LogOutcome


def named(folder: Path, **logs: list[str]) -> list[str]:
    """Write files whose names have a dot for each `_`."""
    names = []
    for name, lines in logs.items():
        path = folder / name.replace("_", ".")
        path.write_text("\n".join(lines) + "\n")
        names.append(str(path))
    return names


def test_a_number_that_is_missing_among_rotated_files_is_a_gap(tmp_path: Path) -> None:
    """Also of a log that is silent for so long anyway."""
    late = OTHER.replace("12:05", "12:21")
    older, newer = [BEFORE, BEFORE.replace("11:00", "11:59"), OTHER], [late, AFTER]
    assert verdict(named(tmp_path, mail_log_1=older, mail_log=newer)).outcome is LogOutcome.NOT_ACCEPTED
    found = verdict(named(tmp_path, mail_log_3=older, mail_log_1=newer))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "none between them" in found.why


def test_what_is_strange_at_the_beginning_of_a_file_lies_behind_the_file_before(tmp_path: Path) -> None:
    """Those of one log follow each other."""
    older, newer = [*AROUND, AFTER.replace("13:00", "13:05")], ["*** strange ***", AFTER.replace("13:00", "13:10")]
    lines = [[line.replace(" mx1 ", " ") for line in of_file] for of_file in (older, newer)]
    assert verdict(named(tmp_path, mail_log_1=lines[0], mail_log=lines[1])).outcome is LogOutcome.NOT_ACCEPTED


def test_what_came_of_a_file_whose_checksum_is_wrong_may_be_wrong(tmp_path: Path) -> None:
    """From its first line: of a file that is only cut off, what came before is as it was written."""
    log = ("\n".join(others(syslog, "mx1")) + "\n").encode()
    packed = bytearray(gzip.compress(log))
    packed[-8] ^= 0xFF
    found = verdict(saved(tmp_path, log, bytes(packed)))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "CRC" in found.why
    assert verdict(saved(tmp_path, log, gzip.compress(log)[:-4])).outcome is LogOutcome.NOT_ACCEPTED


@pytest.mark.parametrize(("minutes", "outcome"), [(50, LogOutcome.STILL_UNKNOWN), (75, LogOutcome.NOT_ACCEPTED)])
def test_who_keeps_a_log_tells_of_its_losses_late(tmp_path: Path, minutes: int, outcome: LogOutcome) -> None:
    """By up to an hour: when a limit's interval is over."""
    moment = SINCE + timedelta(minutes=20 + minutes)
    lost = SUPPRESSED.replace("12:10:00", f"{moment:%H:%M:%S}")
    before = [BEFORE.replace("11:00:00", f"{moment - timedelta(minutes=1):%H:%M:%S}"), lost]
    assert verdict(saved(tmp_path, [BEFORE, OTHER, *before, AFTER.replace("13:00", "14:00")])).outcome is outcome


@pytest.mark.parametrize(
    ("before", "outcome"),
    [(BEFORE, LogOutcome.STILL_UNKNOWN), ("Nov 23 11:00:00 mx1 app[7]: it failed:", LogOutcome.NOT_ACCEPTED)],
)
def test_what_is_set_in_goes_on_with_what_another_program_says(
    tmp_path: Path, before: str, outcome: LogOutcome
) -> None:
    """No mail server says anything in several lines."""
    assert verdict(saved(tmp_path, [BEFORE, before, "    at line 9", "\tat line 8", OTHER, AFTER])).outcome is outcome


def test_a_line_whose_rest_is_to_come_at_the_end_of_a_file_is_a_gap(tmp_path: Path) -> None:
    """Its end may be in a file that is not given."""
    written = FORMATS["Kubernetes"]
    log = others(written, "mx1")
    assert read(saved(tmp_path, log)).gaps == []
    [gap] = read(saved(tmp_path, [*log, f"{nanoseconds(SINCE)} stdout P Nov 23 13:30:00 mx1 postfix/clea"])).gaps
    assert "not complete" in gap.why
    assert gap.since <= SINCE + timedelta(minutes=90) <= gap.until


@pytest.mark.parametrize("days", [-1, 1])
def test_what_is_in_an_archive_was_not_changed_after_either(tmp_path: Path, days: int) -> None:
    """The archive may be a copy, and the tape's time a wrong one."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for number in range(2):
            member = tarfile.TarInfo(f"mail.log.{number}")
            member.mtime = int((SINCE + timedelta(days=days)).timestamp())
            archive.addfile(member)
    [name] = saved(tmp_path, target.getvalue())
    os.utime(name, (SINCE.timestamp(),) * 2)
    with files.opened([name]) as opened:
        assert {file.changed for file in opened} == {SINCE + timedelta(days=min(days, 0))}


def test_times_that_go_back_by_months_leave_the_year_open(tmp_path: Path) -> None:
    """Whether the year has turned there, nobody can see."""
    lines = [BEFORE.replace("Nov", "Sep"), BEFORE.replace("Nov", "Jul"), *AROUND]
    names = saved(tmp_path, lines)
    assert any("--year" in gap.why for gap in read(names).gaps)


def test_gaps_are_bounded_however_many_lines_are_strange(tmp_path: Path) -> None:
    """Those that stand close are one."""
    moments = [SINCE + timedelta(seconds=number) for number in range(3_000)]
    lines = [
        text for moment in moments for text in (syslog(moment, "mx1", "postfix/anvil", 9, "statistics"), "*** a ***")
    ]
    assert len(read(saved(tmp_path, lines)).gaps) == 1
    cut = [syslog(moment, "mx1", "postfix/cleanup", 9, "AAAA") for moment in moments]
    lost = [syslog(moment, "mx1", "rsyslogd", 9, "imuxsock lost 53 messages from pid 5") for moment in moments]
    assert len(read(saved(tmp_path, cut)).coverage["mx1"].gaps) == 1
    assert len(read(saved(tmp_path, cut[:1] + lost)).coverage["mx1"].gaps) == 2


def test_gaps_of_several_kinds_are_bounded_as_well(tmp_path: Path) -> None:
    """Where they take turns, none follows one of its own kind."""
    moments = [SINCE + timedelta(seconds=number) for number in range(1_000)]
    said = ("Linux version 6.1", "imuxsock lost 53 messages from pid 5")
    lines = [syslog(moment, "mx1", "rsyslogd", 9, said[moment.second % 2]) for moment in moments]
    assert len(read(saved(tmp_path, [*AROUND[:2], *lines, AROUND[2]])).coverage["mx1"].gaps) == 2


def test_nuls_stand_for_lines_behind_theirs_as_well(tmp_path: Path) -> None:
    """Until the next line."""
    damaged = "\0\0" + BEFORE.replace("11:00", "11:50")
    found = verdict(saved(tmp_path, [BEFORE, damaged, OTHER, AFTER]))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "NULs" in found.why
