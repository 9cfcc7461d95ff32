"""Lines that name no year have the one that the file's change and the order of lines allow; else they are a doubt."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.proportion import times_as_long
from tests.unit.mail.evidence.test_formats import FORMATS, STRANGE_BY_THEMSELVES, others, saved
from tests.unit.mail.evidence.test_verdicts import ACTIVE, ALL_DAY, AROUND, ATTEMPT, CLIENT, NAMED, SINCE
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files, years
from weir.workers.mail.evidence.formats.files import LogFile
from weir.workers.mail.evidence.formats.years import Years
from weir.workers.mail.evidence.verdicts import LogOutcome, LogVerdict, judge

AT_ONCE = datetime(2026, 11, 23, 13, 0, 5, tzinfo=UTC)
OLDER = [f"{month} 10 12:00:00 mx1 postfix/anvil[9]: statistics" for month in ("Jan", "May", "Sep")]


def read(names: list[str], changed: list[datetime], year: int | None = None) -> reading.Logs:
    with files.opened(names) as opened:
        stamped = [replace(file, changed=moment) for file, moment in zip(opened, changed, strict=True)]
        return reading.read(stamped, [ATTEMPT.message_id], UTC, year)


def verdict(names: list[str], changed: list[datetime], year: int | None = None) -> LogVerdict:
    return judge(ATTEMPT, read(names, changed, year), ALL_DAY)


@pytest.mark.parametrize("later", [timedelta(0), timedelta(hours=23), timedelta(hours=-14)])
def test_a_file_that_was_changed_with_its_last_line_is_of_that_year(tmp_path: Path, later: timedelta) -> None:
    """A zone that is wrong, or a clock, makes less than a day."""
    assert verdict(saved(tmp_path, AROUND), [AT_ONCE + later]).outcome is LogOutcome.NOT_ACCEPTED


@pytest.mark.parametrize("later", [timedelta(days=3), timedelta(days=300), timedelta(days=3_000)])
def test_a_file_that_was_changed_long_after_its_last_line_may_be_of_any_year(tmp_path: Path, later: timedelta) -> None:
    """It was copied: that of last year looks the same. Whoever asks may know."""
    names = saved(tmp_path, AROUND)
    if later < timedelta(days=350):
        found = verdict(names, [AT_ONCE + later])
        assert found.outcome is LogOutcome.STILL_UNKNOWN
        assert "--year" in found.why
    assert verdict(names, [AT_ONCE + later], 2026).outcome is LogOutcome.NOT_ACCEPTED
    assert verdict(names, [AT_ONCE + later], 2025).outcome is LogOutcome.STILL_UNKNOWN


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in STRANGE_BY_THEMSELVES])
def test_whatever_is_around_a_time_without_a_year_its_year_is_not_certain(tmp_path: Path, form: str) -> None:
    """A name of a container, colours: where the time is read, it is known whether it names its year."""
    written = FORMATS[form]
    line = written(SINCE, "mx1", "postfix/anvil", 9, "statistics")
    names_year = "2026" in line or f"{SINCE.timestamp():.0f}" in line
    found = verdict(saved(tmp_path, others(written, "mx1")), [AT_ONCE + timedelta(days=300)])
    assert found.outcome is (LogOutcome.NOT_ACCEPTED if names_year else LogOutcome.STILL_UNKNOWN), found
    assert names_year or "--year" in found.why


def test_what_accepts_an_email_does_so_in_any_year(tmp_path: Path) -> None:
    """No Message-ID is given twice."""
    names = saved(tmp_path, [AROUND[0], CLIENT, NAMED, ACTIVE, *AROUND[1:]])
    assert verdict(names, [AT_ONCE + timedelta(days=3)]).outcome is LogOutcome.ACCEPTED


def test_a_year_is_counted_back_through_the_file(tmp_path: Path) -> None:
    """Each turn is seen: lines of last November are not of this one."""
    last_year = [line.replace("12:05", "12:06") for line in AROUND]
    logs = read(saved(tmp_path, [*last_year, *OLDER]), [datetime(2026, 9, 10, 12, 0, 9, tzinfo=UTC)])
    assert (logs.coverage["mx1"].first.year, logs.coverage["mx1"].last.year) == (2025, 2026)
    logs = read(saved(tmp_path, [*AROUND, *OLDER, *AROUND]), [AT_ONCE])
    assert (logs.coverage["mx1"].first.year, logs.coverage["mx1"].last.year) == (2025, 2026)


def test_lines_that_come_late_at_the_turn_of_the_year_turn_it_once(tmp_path: Path) -> None:
    """Programs write when they come to it."""
    stamps = ["Dec 31 23:59:58", "Jan  1 00:00:00", "Dec 31 23:59:59", "Jan  1 00:00:01"]
    lines = [f"{stamp} mx1 postfix/anvil[9]: statistics" for stamp in stamps]
    logs = read(saved(tmp_path, lines), [datetime(2027, 1, 1, 0, 0, 2, tzinfo=UTC)])
    assert logs.coverage["mx1"].first == datetime(2026, 12, 31, 23, 59, 58, tzinfo=UTC)
    assert logs.coverage["mx1"].last == datetime(2027, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert logs.gaps == []


def test_a_leap_day_tells_the_year(tmp_path: Path) -> None:
    """A file that has one is not of a year that has none."""
    lines = [f"{day} 12:00:00 mx1 postfix/anvil[9]: statistics" for day in ("Feb 28", "Feb 29", "Mar  1")]
    logs = read(saved(tmp_path, lines), [datetime(2026, 11, 23, tzinfo=UTC)])
    assert logs.coverage["mx1"].last.year == 2024


def test_a_file_that_the_next_one_goes_on_with_is_of_its_year(tmp_path: Path) -> None:
    """As logs are rotated: only the last one has the time of its last line, where all were copied."""
    names = [str(tmp_path / name) for name in ("mail.log.1", "mail.log")]
    Path(names[0]).write_text("\n".join(AROUND[:2]) + "\n")
    Path(names[1]).write_text("\n".join([AROUND[1].replace("12:05", "12:50"), AROUND[2]]) + "\n")
    assert verdict(names, [AT_ONCE + timedelta(days=9), AT_ONCE]).outcome is LogOutcome.NOT_ACCEPTED
    assert verdict(names, [AT_ONCE + timedelta(days=9)] * 2).outcome is LogOutcome.STILL_UNKNOWN


def test_a_log_of_many_files_is_followed_from_its_last_one_to_its_first() -> None:
    """Once: those of each hour of some weeks are not compared with one another again and again.

    So it takes about as long as to follow a hundred logs that have a hundredth of its files.
    """

    def hourly(number: int) -> dict[LogFile, Years]:
        found = {}
        for hour in range(number):
            file = LogFile(f"mail.log.{hour}", Path(), AT_ONCE, "mail.log")
            begin = AT_ONCE + timedelta(hours=hour)
            found[file] = Years(2026, begin, begin + timedelta(minutes=59), certain=hour == number - 1)
        return found

    found, short = hourly(2_000), [hourly(20) for _ in range(100)]

    def follow_short() -> None:
        for each in short:
            years.go_on(each)

    assert times_as_long(lambda: years.go_on(found), follow_short, 4) < 4
    assert all(known.certain for known in found.values())
