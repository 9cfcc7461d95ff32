"""Whatever writes, wraps, encodes or packs a log: what it says of an e-mail is read, or is a doubt."""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.mail.evidence.test_verdicts import AROUND, CLIENT, LEFT_BY_ID, NAMED, OURS, SINCE, verdict
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.formats.packings import Damaged
from weir.workers.mail.evidence.traces import Traces
from weir.workers.mail.evidence.verdicts import LogOutcome

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Format = Callable[[datetime, str, str, int, str], str]
QUEUE_ID = "4Fx1zB2cD3z5vK7"
PLAIN = "Nov 23 12:00:01 mx2 postfix/cleanup[6]: {}"


def rfc_3339(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def nanoseconds(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.123456789Z"


def syslog(moment: datetime, host: str, program: str, pid: int, text: str) -> str:
    return f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S} {host} {program}[{pid}]: {text}"


def of_journal(moment: datetime, host: str, program: str, pid: int, message: object) -> str:
    stamp = str(int(moment.timestamp() * 1_000_000))
    fields = {"_HOSTNAME": host, "SYSLOG_IDENTIFIER": program, "SYSLOG_PID": str(pid), "MESSAGE": message}
    return json.dumps({"__REALTIME_TIMESTAMP": stamp, **fields})


def stamped(times: str) -> Format:
    """Return the common form of a line, with its time written so."""
    return lambda moment, host, program, pid, text: f"{moment:{times}} {host} {program}[{pid}]: {text}"


FORMATS: dict[str, Format] = {
    "RFC 3164": syslog,
    "with a priority": lambda *all_: f"<22>{syslog(*all_)}",
    "a day of two digits": stamped("%b %d %H:%M:%S"),
    "fractions": stamped("%b %d %H:%M:%S.123456"),
    "a year behind the day": stamped("%b %d %Y %H:%M:%S"),
    "a year before the month": stamped("%Y %b %d %H:%M:%S"),
    "a weekday, and a year at the end": stamped("%a %b %d %H:%M:%S %Y"),
    "a level behind the host": lambda t, h, p, i, x: f"{t:%b %d %H:%M:%S} {h} mail.info {p}[{i}]: {x}",
    "no host": lambda t, _, p, i, x: f"{t:%b %d %H:%M:%S} {p}[{i}]: {x}",
    "a host that is an address": lambda t, _, p, i, x: f"{t:%b %d %H:%M:%S} 2001:db8::1 {p}[{i}]: {x}",
    "RFC 3339": lambda t, h, p, i, x: f"{rfc_3339(t)} {h} {p}[{i}]: {x}",
    "RFC 3339 with a blank": stamped("%Y-%m-%d %H:%M:%S"),
    "RFC 5424": lambda t, h, p, i, x: f"<22>1 {rfc_3339(t)} {h} {p} {i} - - {x}",
    "RFC 5424 without a priority": lambda t, h, p, i, x: f"1 {rfc_3339(t)} {h} {p} {i} - - {x}",
    "RFC 5424 with data": lambda t, h, p, i, x: (
        f'<22>1 {rfc_3339(t)} {h} {p} {i} ID7 [a@1 b="c\\"]" d="e"][f] \ufeff{x}'
    ),
    "RFC 5424 with its length": lambda t, h, p, i, x: f"99 <22>1 {rfc_3339(t)} {h} {p} {i} - - {x}",
    "journalctl -o short-full": lambda t, h, p, i, x: f"{t:%a %Y-%m-%d %H:%M:%S} UTC {h} {p}[{i}]: {x}",
    "journalctl -o short-iso": lambda t, h, p, i, x: f"{t:%Y-%m-%dT%H:%M:%S}+0000 {h} {p}[{i}]: {x}",
    "journalctl -o short-unix": lambda t, h, p, i, x: f"{t.timestamp():.6f} {h} {p}[{i}]: {x}",
    "journalctl -o json": of_journal,
    "journalctl -o json, bytes": lambda t, h, p, i, x: of_journal(t, h, p, i, [*x.encode()]),
    "journalctl -o json-sse": lambda *all_: f"data: {of_journal(*all_)}",
    "journalctl -o json, of a container": lambda t, *all_: json.dumps(
        json.loads(of_journal(t, "node1", "0a1b2c", 9, syslog(t, *all_))) | {"CONTAINER_NAME": "mail-1"}
    ),
    "docker logs -t": lambda t, *all_: f"{nanoseconds(t)} {syslog(t, *all_)}",
    "docker logs -t, without a time": lambda t, h, p, i, x: f"{nanoseconds(t)} {h} {p}[{i}]: {x}",
    "docker compose logs": lambda *all_: f"mail-1  | {syslog(*all_)}",
    "in colour": lambda t, h, p, i, x: f"\x1b[32m{t:%b %d %H:%M:%S}\x1b[0m {h} \x1b[1m{p}[{i}]:\x1b[0m {x}",
    "docker compose logs, in colour": lambda *all_: f"\x1b[36mmail-1  | \x1b[0m{syslog(*all_)}",
    "docker compose logs -t": lambda t, *all_: f"mail-1  | {nanoseconds(t)} {syslog(t, *all_)}",
    "json-file": lambda t, *all_: json.dumps(
        {"log": f"{syslog(t, *all_)}\n", "stream": "stdout", "time": nanoseconds(t)}
    ),
    "Kubernetes": lambda t, *all_: f"{nanoseconds(t)} stdout F {syslog(t, *all_)}",
    "Kubernetes, in parts": lambda t, *all_: "\n".join(
        f"{nanoseconds(t)} stdout {tag} {part}"
        for tag, part in (("P", syslog(t, *all_)[:61]), ("P", syslog(t, *all_)[61:74]), ("F", syslog(t, *all_)[74:]))
    ),
    "kubectl logs --prefix": lambda *all_: f"[pod/mail-0/postfix] {syslog(*all_)}",
    "NULs before the line": lambda *all_: f"\0\0\0{syslog(*all_)}",
}
STRANGE_BY_THEMSELVES = {"NULs before the line"}  # something was lost: only what is there proves something


def others(written: Format, host: str, every: int = 2) -> list[str]:
    """Return a log of other e-mails, one each two minutes, for two hours and a half."""
    lines = []
    for minute in range(-60, 90, every):
        moment = SINCE + timedelta(minutes=minute, seconds=3)
        lines += email(written, host, moment, f"5Fx1zB{minute + 100:03}zvK7", f"other{minute}@elsewhere.example")
    return lines


def email(written: Format, host: str, moment: datetime, queue_id: str, message_id: str) -> list[str]:
    said = (
        ("postfix/smtpd", 41, "client=web[10.0.0.1]"),
        ("postfix/cleanup", 42, f"message-id=<{message_id}>"),
        ("postfix/qmgr", 7, "from=<shop@example.com>, size=900, nrcpt=1 (queue active)"),
        ("postfix/smtp", 43, "to=<kim@y.example>, relay=mx.y.example[192.0.2.9]:25, delay=0.4, status=sent (250 ok)"),
        ("postfix/qmgr", 7, "removed"),
    )
    return [written(moment, host, program, pid, f"{queue_id}: {text}") for program, pid, text in said]


def ours(written: Format, host: str = "mx2") -> list[str]:
    return email(written, host, SINCE + timedelta(seconds=1), QUEUE_ID, OURS)


def saved(folder: Path, *contents: Iterable[str] | bytes) -> list[str]:
    names = []
    for number, content in enumerate(contents):
        path = folder / f"host{number}.log"
        data = content if isinstance(content, bytes) else ("\n".join(content) + "\n").encode(errors="surrogateescape")
        path.write_bytes(data)
        names.append(str(path))
    return names


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_of_any_format_proves_what_it_has_and_what_it_lacks(tmp_path: Path, form: str) -> None:
    """Beside that of another host, which has another format, and whose silence would prove something."""
    written = FORMATS[form]
    first, second = others(syslog, "mx1", every=10), others(written, "mx2", every=10)
    assert verdict(saved(tmp_path, first, second + ours(written))).outcome is LogOutcome.ACCEPTED
    silent = verdict(saved(tmp_path, first, second))
    assert silent.outcome is (LogOutcome.STILL_UNKNOWN if form in STRANGE_BY_THEMSELVES else LogOutcome.NOT_ACCEPTED), (
        silent
    )


def zipped(content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/", b"")
        archive.writestr("logs/mail.log.1.gz", gzip.compress(content))
    return target.getvalue()


def taped(content: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        member = tarfile.TarInfo("logs/mail.log")
        member.size, member.mtime = len(content), int(SINCE.timestamp()) + 80_000
        archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip, in two pieces": lambda data: gzip.compress(data[:999]) + gzip.compress(data[999:]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    "zstd": zstd.compress,
    "zstd, in gzip": lambda data: gzip.compress(zstd.compress(data)),
    "zip": zipped,
    "tar": taped,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-16, without its mark": lambda data: data.decode().encode("utf-16-le"),
    "UTF-16, big end first": lambda data: data.decode().encode("utf-16-be"),
    "UTF-16, not all of it ASCII": lambda data: data.decode().replace("web[", "w\u011b\u1e03[").encode("utf-16-be"),
    "UTF-32": lambda data: data.decode().encode("utf-32"),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    "CR LF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("form", PACKED)
def test_a_log_may_be_packed_and_encoded(tmp_path: Path, form: str) -> None:
    """By what it is, whatever it is called."""
    first, second = others(syslog, "mx1", every=10), others(syslog, "mx2", every=10)
    content = ("\n".join(second + ours(syslog)) + "\n").encode()
    assert verdict(saved(tmp_path, first, PACKED[form](content))).outcome is LogOutcome.ACCEPTED
    content = ("\n".join(second) + "\n").encode()
    assert verdict(saved(tmp_path, first, PACKED[form](content))).outcome is LogOutcome.NOT_ACCEPTED


def cut(form: str) -> Callable[[bytes], bytes]:
    return lambda data: PACKED[form](data)[: len(PACKED[form](data)) // 3]


UNREADABLE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    **{f"{form}, cut": (cut(form), "cannot be read to its end")
       for form in ("gzip", "bzip2", "xz", "lzma", "zstd", "zip", "tar")},
    "gzip, damaged": (lambda data: gzip.compress(data)[:500] + b"damage" * 9, "cannot be read to its end"),
    "lz4": (lambda _: b"\x04\x22\x4d\x18" + bytes(range(256)), "packed by lz4"),
    "7-Zip": (lambda _: b"7z\xbc\xaf\x27\x1c" + bytes(range(256)), "7z x"),
    "a journal": (lambda _: b"LPKSHHRH" + bytes(range(256)), "journalctl -o json --file"),
    "encrypted": (lambda _: b"-----BEGIN PGP MESSAGE-----\nabc", "gpg -d"),
    "packed too often": (lambda data: gzip.compress(gzip.compress(gzip.compress(gzip.compress(data)))), "more than 3"),
    "bytes of no kind": (lambda _: bytes(range(256)) * 40, "was not understood"),
}  # fmt: skip


@pytest.mark.parametrize("form", UNREADABLE)
def test_what_cannot_be_unpacked_makes_silence_prove_nothing(tmp_path: Path, form: str) -> None:
    """It may have a line of the e-mail. What another file has is a proof all the same."""
    damage, words = UNREADABLE[form]
    content = ("\n".join(others(syslog, "mx1")) + "\n").encode()
    found = verdict(saved(tmp_path, others(syslog, "mx1"), damage(content)))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert words in found.why
    names = saved(tmp_path, others(syslog, "mx1") + ours(syslog, "mx1"), damage(content))
    assert verdict(names).outcome is LogOutcome.ACCEPTED


LOCAL, DOMAIN = OURS.split("@")
MENTIONS = {
    "a program that is not known": f"Nov 23 12:00:01 mx2 maild[7]: took <{OURS}>",
    "a program of Postfix's, in a line that is not known": PLAIN.format(f"AAAAAA1: found <{OURS}>"),
    "a queue id of another form": PLAIN.format(f"aaaaaa1: message-id=<{OURS}>"),
    "no time": f"cleanup: message-id=<{OURS}>",
    "upper case": f"what {OURS.upper()}",
    "JSON": json.dumps({"ts": 1, "msg": f"accepted <{OURS}>"}).replace("@", "\\u0040").replace("-", "\\u002d"),
    "JSON, a slash": f'{{"id": "<{OURS}>\\/"}}',
    "quoted-printable": OURS.replace("@", "=40").replace("-", "=2D"),
    "xtext": OURS.replace("@", "+40").replace("-", "+2D"),
    "a URL": OURS.replace("@", "%40").replace("-", "%2D"),
    "HTML": OURS.replace("@", "&#64;").replace("-", "&#45;"),
    "octal": OURS.replace("@", "#100"),
    "without its domain": LOCAL,
    "at other places": f"{DOMAIN} {LOCAL}",
    "NULs between the letters": "\0".join(f"took {OURS}"),
    "bytes that are not UTF-8": f"\udcff\udcfe<{OURS}>\udcff",
    "in an e-mail that came back": f"X-Id: {OURS}\\r\\nTo: kim",
    "in two of the pieces that are read at once": "x" * (65_536 - OURS.index("@") + 5) + OURS + "x" * 500,
    "behind many": "x" * 200_000 + OURS,
}


@pytest.mark.parametrize("form", MENTIONS)
def test_a_message_id_anywhere_in_a_file_is_a_doubt(tmp_path: Path, form: str) -> None:
    """Also where nothing is known of the line."""
    found = verdict(saved(tmp_path, [*others(syslog, "mx1"), *AROUND, MENTIONS[form]]))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "has its Message-ID" in found.why, found.why


def test_a_message_id_without_random_digits_is_looked_for_as_a_word() -> None:
    """None of ours is so, but a row may have been made by hand. Its parts are in too many texts."""
    found = Traces(["order.shipped-4712-@example.com"]).find
    assert [*found("took <order.shipped-4712-@example.com>, 9 bytes")] == ["order.shipped-4712-@example.com"]
    assert [*found("took <order.shipped-4711-@example.com>, 9 bytes")] == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_long_files_are_read_line_by_line_whatever_ends_a_line(tmp_path: Path, end: str) -> None:
    """Also where a carriage return stands at the end of what is read at once."""
    lines = [f"{number:07}" + "x" * (number % 90) for number in range(9_000)]
    for last in ("", end):
        path = tmp_path / "mail.log"
        path.write_bytes((end.join(lines) + last).encode())
        read = []
        with (
            files.opened([str(path)]) as [opened],
            nullcontext() if last else pytest.raises(Damaged, match="does not end"),
        ):
            for line in opened.lines():
                read.append(line)  # noqa: PERF402  all that came before the error
        assert read == lines


def test_what_comes_through_a_pipe_is_read_more_than_once(tmp_path: Path) -> None:
    """As the shell gives what a command prints."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    content = ("\n".join(others(syslog, "mx1") + ours(syslog, "mx1")) + "\n").encode()
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    assert verdict([str(path)]).outcome is LogOutcome.ACCEPTED
    writer.join()


def test_a_line_that_names_the_queue_id_of_what_was_refused_is_no_doubt(tmp_path: Path) -> None:
    """What the log says of that queue id explains it."""
    refused = [CLIENT, NAMED, LEFT_BY_ID]
    warned = f"Nov 23 12:00:01 mx1 postfix/cleanup[6]: AAAAAA1: warning: header Message-ID: <{OURS}> from web[10.0.0.1]"
    assert verdict(saved(tmp_path, [AROUND[0], *refused, warned, *AROUND[1:]])).outcome is LogOutcome.NOT_ACCEPTED


def test_of_many_lines_that_name_an_email_none_is_passed_over(tmp_path: Path) -> None:
    """Not all of them are kept."""
    refused = [CLIENT, NAMED, LEFT_BY_ID]
    warned = f"Nov 23 12:00:01 mx1 postfix/cleanup[6]: AAAAAA1: warning: header Message-ID: <{OURS}> from web[10.0.0.1]"
    lines = [AROUND[0], *refused, *[warned] * 20, f"Nov 23 12:00:02 mx1 maild[7]: took <{OURS}>", *AROUND[1:]]
    assert verdict(saved(tmp_path, lines)).outcome is LogOutcome.STILL_UNKNOWN


def test_a_zone_that_is_named_must_be_one_of_those_that_times_are_in(tmp_path: Path) -> None:
    """`short-full` names it by letters that are not of one zone only."""
    written = FORMATS["journalctl -o short-full"]
    lines = [line.replace(" UTC ", " CET ") for line in others(written, "mx2")]
    found = verdict(saved(tmp_path, others(syslog, "mx1"), lines))
    assert found.outcome is LogOutcome.STILL_UNKNOWN
    assert "was not understood" in found.why


def test_lines_of_other_programs_are_no_doubt(tmp_path: Path) -> None:
    """An ordinary syslog has many: each is understood as what it is."""
    lines = [
        "Nov 23 12:00:00 mx1 kernel: [12.5] usb 1-1: new device",
        "Nov 23 12:00:00 mx1 last message repeated 3 times",
        "Nov 23 12:00:00 mx1 -- MARK --",
        "Nov 23 12:00:00 mx1 org.gnome.Shell[77]: a",
        "Nov 23 12:00:00 mx1 app[77]: Traceback (most recent call last):",
        "                        File 'a.py', line 1",
        "\tat org.example.Main(Main.java)",
        "Nov 23 12:00:00 mx1 CRON[77]: (root) CMD (true)",
        "Nov 23 12:00:00 mx1 dovecot: imap-login: Login: user=<a>",
        "",
        "-- Journal begins at Mon 2026-11-23 --",
    ]
    assert verdict(saved(tmp_path, [AROUND[0], *lines, *AROUND[1:]])).outcome is LogOutcome.NOT_ACCEPTED
