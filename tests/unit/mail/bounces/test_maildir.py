"""A Maildir: each e-mail is handled before it is marked, and marked once."""

from pathlib import Path

import pytest

from weir.workers.mail.bounces import maildir


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("new", "cur", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


def names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in maildir.unseen(folder)]


def test_what_is_not_seen_is_read_and_then_marked(folder: Path) -> None:
    """New ones, and those that a reader moved and did not mark; not what is being delivered, nor hidden files."""
    for name in ("new/2.a", "new/1.a", "cur/3.a:2,", "cur/4.a:2,RS", "cur/5.a:2,R", "tmp/6.a", "new/.hidden"):
        (folder / name).write_text(name)
    assert names(folder) == ["new/1.a", "new/2.a", "cur/3.a:2,", "cur/5.a:2,R"]
    for path in list(maildir.unseen(folder)):
        maildir.mark(path, for_people=path.name.startswith("2"))
    assert names(folder) == []
    assert sorted(path.name for path in (folder / "cur").iterdir()) == [
        "1.a:2,S", "2.a:2,FS", "3.a:2,S", "4.a:2,RS", "5.a:2,RS"
    ]  # fmt: skip
    assert (folder / "cur" / "1.a:2,S").read_text() == "new/1.a"


def test_two_readers_and_a_mark_that_comes_twice_do_no_harm(folder: Path) -> None:
    """The other one was faster."""
    path = folder / "new" / "1.a"
    path.write_text("x")
    maildir.mark(path, for_people=False)
    maildir.mark(path, for_people=False)
    assert maildir.read(path, 10) is None
    assert maildir.read(folder / "cur" / "1.a:2,S", 10) == b"x"


def test_a_folder_that_is_no_maildir_is_refused(tmp_path: Path) -> None:
    """One sentence that names what is missing."""
    with pytest.raises(maildir.NoMaildir, match="it has no folder new"):
        names(tmp_path)
