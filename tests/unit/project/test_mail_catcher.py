"""The folder of caught e-mails: bounded, in the order of time, and what is said of each."""

from itertools import pairwise
from pathlib import Path

import pytest

from project.processes import mail_catcher


def test_the_newest_are_kept_and_their_names_are_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that an earlier run has caught; what else is in the folder is left alone."""
    monkeypatch.setattr(mail_catcher, "MOST", 3)
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "notes.txt").touch()
    for run in (b"first", b"second"):
        folder = mail_catcher.Folder(tmp_path / "mail")
        for number in range(2):
            folder.add(b"%s %d" % (run, number))
    files = sorted((tmp_path / "mail").glob("*.eml"))
    assert [file.read_bytes() for file in files] == [b"first 1", b"second 0", b"second 1"]
    assert all(before.name < after.name for before, after in pairwise(files))
    assert (tmp_path / "mail" / "notes.txt").exists()


def test_only_we_can_read_them(tmp_path: Path) -> None:
    """They are of customers."""
    file = mail_catcher.Folder(tmp_path / "mail").add(b"x")
    assert (tmp_path / "mail").stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (b"Subject: Your order", "'Your order'"),
        (b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=", "'Grüße'"),
        (b"Subject: =?utf-8?q?=1B=5B2J?=", "'?[2J'"),
        (b"Subject: " + b"x" * 100, f"'{'x' * 60}...'"),
        (b"X-None: 1", "''"),
        (b"\xff\xfe", "''"),
    ],
)
def test_a_line_is_printable(header: bytes, shown: str, tmp_path: Path) -> None:
    """Whatever the subject holds: a terminal obeys escape sequences."""
    said = mail_catcher.line(["kim@example.com", "a\x1b@b"], header + b"\n\nHello", tmp_path / "1.eml")
    assert said == f"to kim@example.com, a?@b: {shown}, {tmp_path}/1.eml"


def test_a_path_in_the_checkout_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is to be clicked at, or copied, and the line is not to wrap."""
    monkeypatch.chdir(tmp_path)
    assert mail_catcher.line(["a@b"], b"\n\n", tmp_path / ".weir/mail/1.eml").endswith(", .weir/mail/1.eml")
