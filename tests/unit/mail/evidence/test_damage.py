"""Lines that are cut, run together or are missing, files that are missing, and losses that loggers tell of."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.mail.evidence.in_memory import verdict_by
from tests.unit.mail.evidence.test_formats import FORMATS, others, ours, saved, syslog
from tests.unit.mail.evidence.test_verdicts import ALL_DAY, AROUND, NAMED, OURS, START, verdict
from weir.workers.mail.evidence import losses
from weir.workers.mail.evidence.losses import Reach
from weir.workers.mail.evidence.verdicts import LogOutcome, Vouched

EXIM_BEFORE = "2026-11-23 11:00:00 1rABCA-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=1 id=first@example.com"
EXIM_OTHER = "2026-11-23 12:05:00 1rABCD-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=1 id=other@example.com"
EXIM_AFTER = "2026-11-23 13:00:00 1rABCE-0005xY-1Z <= a@b H=web [10.0.0.1] P=esmtp S=1 id=last@example.com"
EXIM_OURS = f'2026-11-23 12:00:02 1rABCC-0005xY-1Z <= shop@example.com H=web [10.0.0.1] P=esmtp S=900 id={OURS} T="a"'
QUEUE_EMPTY = Vouched(
    complete_from=ALL_DAY.complete_from, complete_until=ALL_DAY.complete_until, relays=["mx1:25"], queue_empty=True
)
LOST: dict[str, Callable[[str, int, str], str]] = {  # a line, where it is cut, and the next one
    "some of its middle": lambda line, at, _: f"{line[:at]}…{line[-9:]}",
    "the end of the line": lambda line, at, _: line[:at],
    "the end and the line's end": lambda line, at, following: f"{line[:at]}{following}",
    "the end, and NULs in its place": lambda line, at, _: f"{line[:at]}\0\0\0\0\0",
    "the end, and the next one's beginning": lambda line, at, following: f"{line[:at]}\n{following[30:]}",
    "the beginning": lambda line, at, _: line[at:],
}


@pytest.mark.parametrize("form", ["RFC 3164", "RFC 5424", "journalctl -o json", "Kubernetes", "docker compose logs"])
@pytest.mark.parametrize("damage", LOST)
def test_no_line_of_ours_is_taken_for_another_ones_wherever_it_is_cut(tmp_path: Path, damage: str, form: str) -> None:
    """All that the log had of the e-mail is lost but for the one line that is cut; and the queue was seen empty."""
    written = FORMATS[form]
    around = others(written, "mx1", every=60)
    noon = next(number for number, line in enumerate(around) if "13:00:03" in line or "1795438803" in line)
    named = ours(written, "mx1")[1]
    whole = verdict(saved(tmp_path, around), QUEUE_EMPTY)
    assert whole.outcome is LogOutcome.NOT_ACCEPTED
    assert verdict_by(around, QUEUE_EMPTY) == whole
    wrong = []
    for at in range(len(named) if damage != "the beginning" else named.index(OURS)):
        rest = LOST[damage](named, at, around[noon])
        # A line that is missing altogether looks as one that was never written; so does one of nothing but blanks.
        if not rest.strip() or (at == 0 and damage != "the beginning"):
            continue
        found = verdict_by([*around[:noon], rest, *around[noon:]], QUEUE_EMPTY)
        # Where only what wraps the line is cut, it is whole, and the queue's word counts.
        if found.outcome is not LogOutcome.STILL_UNKNOWN and not found.why.startswith("The content came in"):
            wrong.append((rest, found))
    assert wrong == []


EXIMS: dict[str, Callable[[str], str]] = {  # how a line of its mainlog is written
    "mainlog": lambda line: line,
    "syslog": lambda line: f"Nov 23 {line[11:19]} mx1 exim[77]: {line[20:]}",
    "syslog, with a year": lambda line: f"2026 Nov 23 {line[11:19]} mx1 exim[77]: {line[20:]}",
    "syslog, with its own time": lambda line: f"2026-11-23T{line[11:19]}Z mx1 exim[77]: {line}",
    "docker logs -t": lambda line: f"2026-11-23T{line[11:19]}.5Z {line}",
}


@pytest.mark.parametrize("following", [EXIM_OTHER, "2026-11-23 12:05:00 Start queue run: pid=7"])
@pytest.mark.parametrize("form", EXIMS)
@pytest.mark.parametrize("damage", LOST)
def test_no_line_of_exim_is_taken_for_another_ones_wherever_it_is_cut(damage: str, form: str, following: str) -> None:
    """Its line of arrival names the e-mail near its end."""
    before, ours_, next_, other, after = (
        EXIMS[form](line) for line in (EXIM_BEFORE, EXIM_OURS, following, EXIM_OTHER, EXIM_AFTER)
    )
    wrong = []
    for at in range(1, ours_.index(OURS) + len(OURS)):
        rest = LOST[damage](ours_, at, next_)
        if rest.startswith("2026-11-23T12:00:02Z 2026-11-23T12:05:00Z mx1"):  # as docker logs -t writes the second one
            continue
        found = verdict_by([before, rest, next_, other, after], QUEUE_EMPTY)
        if found.outcome is LogOutcome.NOT_ACCEPTED:
            wrong.append((rest, found))
    assert wrong == []


def test_what_was_not_understood_is_no_doubt_where_somebody_has_looked_at_it(tmp_path: Path) -> None:
    """But for what has the Message-ID."""
    vouched = Vouched(
        complete_from=ALL_DAY.complete_from, complete_until=ALL_DAY.complete_until, relays=["mx1:25"],
        strange_harmless=True,
    )  # fmt: skip
    strange = [AROUND[0], "*** starting ***", *AROUND[1:]]
    found = verdict(saved(tmp_path, strange))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "a line was not understood (*** starting ***)" in found.why
    assert "--strange-lines-harmless" in found.why
    assert verdict(saved(tmp_path, strange), vouched).outcome is LogOutcome.NOT_ACCEPTED
    assert verdict(saved(tmp_path, [*strange, f"*** {OURS} ***"]), vouched).outcome is LogOutcome.STILL_UNKNOWN


def test_a_strange_line_concerns_only_the_time_at_which_it_stands(tmp_path: Path) -> None:
    """Between the lines before and after it."""
    strange = "*** starting ***"
    for lines, outcome in (
        ([AROUND[0], AROUND[1].replace("12:05", "11:30"), strange, AROUND[1].replace("12:05", "11:50"), *AROUND[1:]],
         LogOutcome.NOT_ACCEPTED),
        ([AROUND[0], strange, *AROUND[1:]], LogOutcome.STILL_UNKNOWN),
        ([*AROUND, strange], LogOutcome.NOT_ACCEPTED),
        ([strange, *AROUND], LogOutcome.NOT_ACCEPTED),  # it is of some time before
        ([strange, *AROUND[1:], AROUND[0]], LogOutcome.STILL_UNKNOWN),
    ):  # fmt: skip
        assert verdict(saved(tmp_path, lines)).outcome is outcome, lines


def test_a_file_that_does_not_end_where_a_line_ends_may_have_lost_more(tmp_path: Path) -> None:
    """From its last line until it was changed; the next file of the log does not tell."""
    log = others(syslog, "mx1")
    names = saved(tmp_path, log[:160], log[160:])
    assert verdict(names).outcome is LogOutcome.NOT_ACCEPTED
    Path(names[0]).write_text("\n".join(log[:160])[:-9])
    found = verdict(names)
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "does not end where a line ends" in found.why


def test_nuls_may_stand_for_lines_before_or_behind_theirs(tmp_path: Path) -> None:
    """A line of NULs and one that has some of them are the same: lines were lost there."""
    for first, second in (("11:50", "12:40"), ("11:00", "12:10"), ("12:10", "12:50")):
        damaged = "\0\0" + AROUND[0].replace("11:00", second)
        lines = [AROUND[0], AROUND[0].replace("11:00", first), damaged, AROUND[1].replace("12:05", "12:50"), AROUND[2]]
        found = verdict(saved(tmp_path, lines))
        assert found.outcome is LogOutcome.STILL_UNKNOWN, (first, second)
        assert "NULs" in found.why or "no Message-ID" in found.why


def test_a_file_that_is_missing_between_two_is_missed(tmp_path: Path) -> None:
    """Where neither has a line for longer than any file goes without one."""
    log = others(syslog, "mx1")
    parts = [log[:150], log[150:300], log[300:]]
    assert verdict(saved(tmp_path, *parts)).outcome is LogOutcome.NOT_ACCEPTED
    for missing in range(3):
        given = [part for number, part in enumerate(parts) if number != missing]
        found = verdict(saved(tmp_path, *given))
        times = [line[7:15] for line in parts[missing]]
        touched = times[0] <= "12:20:00" and times[-1] >= "11:55:00"
        assert found.outcome is (LogOutcome.STILL_UNKNOWN if touched else LogOutcome.NOT_ACCEPTED), found


SAID = {
    Reach.HOST: [
        "rsyslogd: imuxsock lost 53 messages from pid 812 due to rate-limiting",
        "rsyslogd: imuxsock[pid: 812, name: /usr/lib/postfix/sbin/smtpd]: 53 messages lost due to rate-limiting (200",
        "rsyslogd: imjournal: begin to drop messages due to rate-limiting",
        "rsyslogd-2177: imuxsock begins to drop messages from pid 812 due to rate-limiting",
        "rsyslogd: imjournal: 812 messages lost due to rate-limiting",
        "systemd-journald[300]: Suppressed 53 messages from postfix@-.service",
        "systemd-journald[300]: Missed 53 kernel messages",
        "systemd-journald[300]: Forwarding to syslog missed 53 messages.",
        "systemd-journald[300]: Failed to write entry to /var/log/journal/x (22 items, 700 bytes), ignoring: No space",
        "systemd-journald[300]: Failed to write entry (22 items, 700 bytes), ignoring: Bad message",
        "systemd-journald[300]: File /var/log/journal/x corrupted or uncleanly shut down, renaming and replacing.",
        "rsyslogd: [origin software='rsyslogd' swVersion='8'] exiting on signal 15.",
        "syslog-ng[300]: syslog-ng shutting down; version='3.38.1'",
        "systemd-journald[300]: Journal stopped",
        "dockerd[9]: Error writing log message",
        "dockerd[9]: Error rotating log file, log data may have been lost",
        'kubelet[9]: failed to reopen container log "a": no such container',
        "logrotate[9]: error: error copying /var/log/mail.log to /var/log/mail.log.1: Permission denied",
        "logrotate[9]: error: error truncating /var/log/mail.log: Invalid argument",
        "kernel: [9.1] Out of memory: Killed process 812 (rsyslogd) total-vm:1",
    ],
    Reach.ALL: [
        "rsyslogd: action 'action-3-builtin:omfile' (module 'builtin:omfile') message lost, could not be processed.",
        "rsyslogd: file '/var/log/mail.log'[9] write error - see https://www.rsyslog.com/ for help OS error: full",
        "rsyslogd: action 'a' suspended (module 'builtin:omfwd'), next retry is Mon",
        "rsyslogd: main Q: queue is full, 53 messages discarded",
        "rsyslogd: main Q: lost 53 messages from diskqueue (invalid .qi file)",
        "rsyslogd: imtcp from <web7>: begin to drop messages due to rate-limiting",
        "rsyslogd: imptcp imptcp: message received is at least 9 byte larger than max msg size; message will be split",
        "rsyslogd: received oversize message: size is 9000 bytes, max msg size is 8096, truncating...",
        "rsyslogd: Framing Error in received TCP message from peer: (hostname) mx2: delimiter is not SP but has",
        "syslog-ng[300]: Incoming frame larger than log_msg_size(); log_msg_size='65536', frame_length='99999'",
        "syslog-ng[300]: Destination reliable queue full, dropping message; filename='/x'",
        "syslog-ng[300]: Number of dropped messages; count='53'",
        "syslog-ng[300]: Message(s) dropped while sending message to destination; driver='d'",
        "syslog-ng[300]: I/O error occurred while writing; fd='9', error='No space left on device (28)'",
        "syslog-ng[300]: Log statistics; dropped='dst.file(d_mail#0,/var/log/mail.log)=53', processed='center()=9'",
    ],
    Reach.DOWN: [
        'rsyslogd: [origin software="rsyslogd" swVersion="8" x-pid="8" x-info="https://www.rsyslog.com"] start',
        "syslog-ng[300]: syslog-ng starting up; version='3.38.1'",
        "syslogd: syslogd started: BusyBox v1.36.1",
        "syslogd 1.5.0: restart (remote reception).",
        "systemd-journald[300]: Journal started",
    ],
    Reach.BOOT: [
        "kernel: Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)",
        "kernel: [    0.000000] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)",
    ],
}  # fmt: skip
NO_LOSSES = [
    'rsyslogd: [origin software="rsyslogd" swVersion="8" x-pid="8"] rsyslogd was HUPed',
    "rsyslogd: imjournal: journal files changed, reloading...",
    "syslog-ng[300]: Log statistics; dropped='dst.file(d_mail#0,/var/log/mail.log)=0', processed='center()=9'",
    "systemd-journald[300]: System Journal (/var/log/journal/x) is 8.0M, max 4.0G, 3.9G free.",
    "systemd[1]: Started Session 7 of user kim.",
    "dovecot: imap(kim): Logged out in=1 out=2",
    "kernel: [9.1] Out of memory: Killed process 812 (java) total-vm:1",
]  # fmt: skip


@pytest.mark.parametrize(("reach", "said"), [(reach, said) for reach, all_ in SAID.items() for said in all_])
def test_what_loggers_say_of_their_own_losses_is_a_doubt(tmp_path: Path, reach: Reach, said: str) -> None:
    """In the time around it; if it is the host that gathers the logs of others, of theirs, too."""
    line = f"Nov 23 12:10:00 mx1 {said}"
    found = verdict(saved(tmp_path, [*AROUND[:2], line, AROUND[2]]))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert said.partition(": ")[2][:40] in found.why
    elsewhere = verdict(saved(tmp_path, [*AROUND[:2], line.replace("mx1", "loghost"), AROUND[2]]))
    assert elsewhere.outcome is (LogOutcome.STILL_UNKNOWN if reach is Reach.ALL else LogOutcome.NOT_ACCEPTED)


def test_a_loss_counts_wherever_it_stands(tmp_path: Path) -> None:
    """In a file of its host that is read before the mail server's, too."""
    syslog_file = [
        "Nov 23 10:00:00 mx1 cron[7]: x",
        "Nov 23 12:10:00 mx1 systemd-journald[3]: Suppressed 9 messages from a",
    ]
    found = verdict(saved(tmp_path, AROUND, syslog_file))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "Suppressed 9 messages" in found.why


def test_a_log_that_survived_crashes_did_not_survive_those_of_who_keeps_it(tmp_path: Path) -> None:
    """A machine may have been started in good order; lines that came while no logger ran are lost."""
    vouched = Vouched(
        complete_from=ALL_DAY.complete_from, complete_until=ALL_DAY.complete_until, relays=["mx1:25"],
        survived_crashes=True,
    )  # fmt: skip
    for reach in (Reach.BOOT, Reach.DOWN):
        line = f"Nov 23 12:10:00 mx1 {SAID[reach][0]}"
        found = verdict(saved(tmp_path, [*AROUND[:2], line, AROUND[2]]), vouched)
        assert found.outcome is (LogOutcome.NOT_ACCEPTED if reach is Reach.BOOT else LogOutcome.STILL_UNKNOWN), line


@pytest.mark.parametrize(
    "started", [START.format(1), "-- Boot 0123456789abcdef --", f"Nov 23 12:10:00 mx1 {SAID[Reach.DOWN][-1]}"]
)
def test_what_was_down_was_so_since_the_line_before_in_time(tmp_path: Path, started: str) -> None:
    """Not in the file: some tools write the last line first (`journalctl -r`), or files one behind the other."""
    log = [*AROUND[:2], started.replace("12:10", "12:28"), AROUND[1].replace("12:05", "12:28"), AROUND[2]]
    found = verdict(saved(tmp_path, log))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "started" in found.why
    for other in (log[::-1], log[2:] + log[:2]):
        found = verdict(saved(tmp_path, other))
        assert found.outcome is LogOutcome.STILL_UNKNOWN
        assert "not in the order of time" in found.why


def test_lines_that_come_a_little_late_are_in_order(tmp_path: Path) -> None:
    """Programs write when they come to it."""
    late = AROUND[1].replace("12:05:00", "12:04:10")
    assert verdict(saved(tmp_path, [*AROUND[:2], late, AROUND[2]])).outcome is LogOutcome.NOT_ACCEPTED


@pytest.mark.parametrize("said", NO_LOSSES)
def test_what_loggers_say_otherwise_is_none(tmp_path: Path, said: str) -> None:
    """Numbers of what was lost may be nought."""
    assert losses.reach(said.partition(": ")[2]) is None
    assert (
        verdict(saved(tmp_path, [*AROUND[:2], f"Nov 23 12:10:00 mx1 {said}", AROUND[2]])).outcome
        is LogOutcome.NOT_ACCEPTED
    )


def test_a_message_id_that_is_cut_off_may_be_ours(tmp_path: Path) -> None:
    """Where ours begins so; another one's does not."""
    unknown, not_accepted = ("<order.sh", "<", ""), ("<invoice", "no-brackets@x.example")
    expected = dict.fromkeys(unknown, LogOutcome.STILL_UNKNOWN) | dict.fromkeys(not_accepted, LogOutcome.NOT_ACCEPTED)
    for cut, outcome in expected.items():
        line = NAMED.replace(f"<{OURS}>", cut)
        assert verdict(saved(tmp_path, [AROUND[0], line, *AROUND[1:]])).outcome is outcome, cut
