"""Whose lines a log has: hosts that it names, and those that only the files' names tell apart."""

import re
from datetime import UTC
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.unit.mail.evidence.test_damage import EXIM_AFTER, EXIM_BEFORE, EXIM_OTHER, EXIM_OURS
from tests.unit.mail.evidence.test_verdicts import ALL_DAY, AROUND, ATTEMPT, verdict
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.formats.files import family
from weir.workers.mail.evidence.verdicts import LogOutcome, Vouched, judge

EXIM = [EXIM_BEFORE, EXIM_OTHER, EXIM_AFTER]
LATE = [line.replace("12:05", "12:45").replace("1rABC", "1rXYZ") for line in EXIM[1:]]


def written(folder: Path, **logs: list[str]) -> list[str]:
    """Write files, of which `__` in the name is a folder and `_` a dot; returns their names."""
    names = []
    for name, lines in logs.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        names.append(str(path))
    return names


def judged(names: list[str], hosts: list[tuple[str, str]], vouched: Vouched = ALL_DAY) -> tuple[LogOutcome, str]:
    with files.opened(names, hosts) as opened:
        found = judge(ATTEMPT, reading.read(opened, [ATTEMPT.message_id], UTC), vouched)
    return found.outcome, found.why


@for_each(
    ("name", "expected"),
    [
        ("mainlog", "mainlog"),
        ("mainlog.1", "mainlog"),
        ("mainlog.02.gz", "mainlog"),
        ("mx1/mainlog.2.zst", "mx1/mainlog"),
        ("mail.log", "mail.log"),
        ("mail.log.1", "mail.log"),
        ("mail.log-20261123.gz", "mail.log"),
        ("mail.log-2026-11-23_120000.xz", "mail.log"),
        ("mail-20261123.log", "mail.log"),
        ("mail-20261123.log.gz", "mail.log"),
        ("mail_2026-11-23.log.zst", "mail.log"),
        ("mail.log-20261122-20261123", "mail.log"),
        ("0.log.20261123-120000.gz", "0.log"),
        ("mail.log.old", "mail.log"),
        ("mx1.log", "mx1.log"),
        ("mx.example.com", "mx.example.com"),
        ("logs.zip:mx1/mainlog.1", "logs.zip:mx1/mainlog"),
        ("20261123", "20261123"),
        ("-", "-"),
    ],
)
def test_a_rotated_file_is_of_the_family_of_the_first(name: str, expected: str) -> None:
    """With the folder, as hosts' logs of one name lie in folders of their own."""
    assert family(name) == expected


def test_one_exim_is_not_another(tmp_path: Path) -> None:
    """What the log of one covers is not covered by the other's, whose older file is missing."""
    names = written(tmp_path, mx1__mainlog=EXIM, mx2__mainlog=LATE)
    found = verdict(names)
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "mx2/mainlog begin at 2026-11-23 12:45:00" in found.why
    assert verdict(written(tmp_path, mx1__mainlog=EXIM, mx2__mainlog=EXIM)).outcome is LogOutcome.NOT_ACCEPTED
    assert verdict(written(tmp_path, mx1__mainlog=EXIM, mx2__mainlog=[*EXIM, EXIM_OURS])).outcome is LogOutcome.ACCEPTED


def test_a_rotated_log_is_of_the_same_exim(tmp_path: Path) -> None:
    """Its files together cover the time."""
    names = written(tmp_path, mainlog_1=[*EXIM[:1], EXIM_BEFORE.replace("11:00", "11:50")], mainlog=EXIM[1:])
    assert verdict(names).outcome is LogOutcome.NOT_ACCEPTED


BOUNCE = "2026-11-23 12:03:00 1rABCX-0005xY-1Z <= <> R=1rABCW-0005xX-0A U=Debian-exim P=local S=1200"


def test_what_an_exim_sends_by_itself_is_no_doubt(tmp_path: Path) -> None:
    """Its bounces have a line of arrival, without a Message-ID: they did not come by SMTP, as ours do."""
    assert verdict(written(tmp_path, mainlog=[EXIM[0], BOUNCE, *EXIM[1:]])).outcome is LogOutcome.NOT_ACCEPTED


def test_an_exim_that_logs_no_message_ids_proves_nothing_by_silence(tmp_path: Path) -> None:
    """As with `log_selector = -msg_id +subject`: each line of arrival may be that of ours."""
    silent = [re.sub(r" id=\S+", ' T="Hello"', line) for line in (*EXIM, EXIM_OURS)]
    found = verdict(written(tmp_path, mainlog=sorted([*silent, BOUNCE])))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    only_bounces = [EXIM[0], BOUNCE, EXIM[2]]
    found = verdict(written(tmp_path, mainlog=only_bounces))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "logged no Message-ID at all" in found.why


def test_files_that_overlap_are_of_two_hosts(tmp_path: Path) -> None:
    """A log goes on where its last file ended: two of one time that name no host are not of one."""
    names = written(tmp_path, mainlog_1=EXIM, mainlog_2=[EXIM_BEFORE, EXIM_OTHER.replace("12:05", "11:30")])
    found = verdict(names)
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "--host-of" in found.why


def test_whoever_asks_may_say_whose_files_they_are(tmp_path: Path) -> None:
    """By patterns of their names."""
    names = written(tmp_path, a__x=[*EXIM[:1], EXIM_BEFORE.replace("11:00", "11:50")], b__y=EXIM[1:], c__z=EXIM)
    outcome, why = judged(names, [])
    assert outcome is LogOutcome.STILL_UNKNOWN
    assert "a/x end at" in why
    hosts = [("mx1", "*/[ab]/*"), ("mx2", "*/c/*")]
    assert judged(names, hosts)[0] is LogOutcome.NOT_ACCEPTED
    only_second = Vouched(complete_from=ALL_DAY.complete_from, complete_until=ALL_DAY.complete_until,
                          relays=ALL_DAY.relays, hosts=("mx2",))  # fmt: skip
    assert judged(names, hosts, only_second)[0] is LogOutcome.NOT_ACCEPTED


def test_hosts_that_call_themselves_localhost_are_told_apart_by_their_files(tmp_path: Path) -> None:
    """Many containers do."""
    here = [line.replace("mx1", "localhost") for line in AROUND]
    assert verdict(written(tmp_path, a_log=here, b_log=here[1:])).outcome is LogOutcome.STILL_UNKNOWN
    assert verdict(written(tmp_path, a_log=here, b_log=here)).outcome is LogOutcome.NOT_ACCEPTED


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["Nov 23 12:00:00 mx2 smtpd[7]: 1a2b smtp connected address=10.0.0.1"], "--host"),
        (["Nov 23 12:00:00 mx2 cron[7]: x"], "mx2"),
        (["2026-11-23 12:00:00 maild started"], "no line of Postfix or Exim"),
    ],
)
def test_a_file_without_a_line_of_a_mail_server_that_is_read_is_a_doubt(
    tmp_path: Path, lines: list[str], words: str
) -> None:
    """Whoever gives it believes that it counts: a server whose log is not read may have taken the e-mail."""
    names = written(tmp_path, mx1_log=AROUND, mx2_log=lines)
    found = verdict(names)
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert words in found.why
    named = Vouched(complete_from=ALL_DAY.complete_from, complete_until=ALL_DAY.complete_until,
                    relays=ALL_DAY.relays, hosts=("mx1",))  # fmt: skip
    assert verdict(names, named).outcome is LogOutcome.NOT_ACCEPTED


def test_a_host_in_a_log_of_many_that_has_another_mail_server_is_a_doubt(tmp_path: Path) -> None:
    """Its log names no Message-ID, or names it in a way that is not read."""
    lines = [*AROUND[:2], "Nov 23 12:06:00 mx2 sm-mta[7]: 5AN: from=<a@b>, size=1, msgid=<x@y>", AROUND[2]]
    found = verdict(written(tmp_path, all_log=lines))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "mx2 has lines of sm-mta" in found.why


def test_a_file_of_other_programs_of_the_same_host_is_no_doubt(tmp_path: Path) -> None:
    """Its syslog beside its mail log."""
    names = written(tmp_path, mail_log=AROUND, syslog=["Nov 23 12:00:00 mx1 cron[7]: x"])
    assert verdict(names).outcome is LogOutcome.NOT_ACCEPTED
