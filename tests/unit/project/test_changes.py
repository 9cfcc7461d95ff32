"""Which files of a checkout count as code that processes run, and when a change of them is told."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from project.processes import changes


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one app."""
    for name in ("shop/__init__.py", "shop/tasks.py", "shop/sql/due.sql", "shop/templates/shop/mail.txt", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(changes, "SETTLED_S", 0.01)


def told(code: changes.Code, checkout: Path, *, all_ended: bool = False) -> list[str]:
    """Return what has changed, relative to the checkout."""
    try:
        code.check(all_ended=all_ended)
    except changes.CodeChanged as changed:
        return [str(Path(path).relative_to(checkout)) for path in changed.paths]
    return []


@pytest.mark.parametrize(
    "name",
    [
        "shop/tasks.py",
        "shop/new.py",
        "shop/orders/__init__.py",
        "shop/contests.py",
        "shop/sql/due.sql",
        "shop/templates/shop/mail.txt",
        "shop/templates/shop/mail.html",
        "shop/locale/de/LC_MESSAGES/django.mo",
        "local/settings.py",
        "local/urls.py",
        ".env",
        "Procfile",
        "Procfile.split",
    ],
)
def test_code_counts(name: str, checkout: Path) -> None:
    """Modules, statements, templates and translations of packages, and the variables."""
    code = changes.Code(checkout)
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("y = 12\n")
    assert told(code, checkout) == [name]
    assert told(code, checkout) == []


@pytest.mark.parametrize(
    "name",
    [
        "shop/notes.md",
        "shop/locale/de/LC_MESSAGES/django.po",
        "shop/.tasks.py.swp",
        "shop/.#tasks.py",
        "shop/__pycache__/tasks.py",
        ".venv/lib/site.py",
        ".weir/x.py",
        "scripts/once.py",
        "tests/__init__.py",
        "shop/tests.py",
        "shop/test_orders.py",
        "shop/tests/__init__.py",
        "README.md",
    ],
)
def test_all_else_does_not(name: str, checkout: Path) -> None:
    """What no process imports: texts, editors' files, byte code, other folders, an app's tests."""
    code = changes.Code(checkout)
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("y = 12\n")
    assert told(code, checkout) == []


def test_a_new_package_counts_with_what_makes_use_of_it(checkout: Path) -> None:
    """`startapp` restarts nothing; that the settings name the app does, and tells all."""
    code = changes.Code(checkout)
    (checkout / "stock").mkdir()
    (checkout / "stock/__init__.py").write_text("")
    assert told(code, checkout) == []
    (checkout / "shop/settings.py").write_text("y = 12\n")
    assert told(code, checkout) == ["shop/settings.py", "stock/__init__.py"]
    code.starts()
    (checkout / "stock/tasks.py").write_text("y = 12\n")
    assert told(code, checkout) == ["stock/tasks.py"]


def test_a_new_package_in_the_owners_folder_counts_with_what_makes_use_of_it(checkout: Path) -> None:
    """The folder is there before anything is in it."""
    code = changes.Code(checkout)
    (checkout / "local/stock").mkdir(parents=True)
    (checkout / "local/stock/__init__.py").write_text("")
    assert told(code, checkout) == []
    (checkout / "local/settings.py").write_text("y = 12\n")
    assert told(code, checkout) == ["local/settings.py", "local/stock/__init__.py"]


def test_a_new_package_counts_where_no_process_runs(checkout: Path) -> None:
    """It may be what they missed, also where it came before they had ended."""
    code = changes.Code(checkout)
    (checkout / "stock").mkdir()
    (checkout / "stock/__init__.py").write_text("")
    assert told(code, checkout) == []
    assert told(code, checkout, all_ended=True) == ["stock/__init__.py"]
    assert told(code, checkout, all_ended=True) == []


def test_a_file_that_is_deleted_is_a_change(checkout: Path) -> None:
    """As is one that is replaced, which is how editors save."""
    code = changes.Code(checkout)
    (checkout / "shop/tasks.py").unlink()
    assert told(code, checkout) == ["shop/tasks.py"]
    (checkout / "shop/new").write_text("y = 12\n")
    (checkout / "shop/new").rename(checkout / "shop/tasks.py")
    assert told(code, checkout) == ["shop/tasks.py"]


def test_files_that_are_saved_at_once_are_one_change(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is saved while the first one is noticed."""

    def save_another(_seconds: float) -> None:
        if not (checkout / "shop/b.py").exists():
            (checkout / "shop/b.py").write_text("y = 12\n")

    monkeypatch.setattr(time, "sleep", save_another)
    code = changes.Code(checkout)
    (checkout / "shop/a.py").write_text("y = 12\n")
    assert told(code, checkout) == ["shop/a.py", "shop/b.py"]
    assert told(code, checkout) == []


def test_what_changes_while_processes_start_is_a_change(checkout: Path) -> None:
    """They may have read the file before, or after."""
    code = changes.Code(checkout)
    code.starts()
    (checkout / "shop/tasks.py").write_text("y = 12\n")
    assert told(code, checkout) == ["shop/tasks.py"]


def test_all_that_changed_since_the_start_is_told(checkout: Path) -> None:
    """A file that was broken, for which nothing was started, is looked at again with the next one."""
    code = changes.Code(checkout)
    (checkout / "shop/a.py").write_text("def broken(:\n")
    assert told(code, checkout) == ["shop/a.py"]
    (checkout / "shop/b.py").write_text("y = 12\n")
    assert told(code, checkout) == ["shop/a.py", "shop/b.py"]
    code.starts()
    (checkout / "shop/c.py").write_text("y = 12\n")
    assert told(code, checkout) == ["shop/c.py"]


def test_a_file_that_python_cannot_parse_is_told(checkout: Path) -> None:
    """As Python does, with file and line; a good one, a deleted one and a template are not."""
    (checkout / "shop/a.py").write_text("x = 1\ndef broken(:\n")
    names = ("shop/a.py", "shop/tasks.py", "shop/gone.py", "shop/templates/shop/mail.txt")
    said = changes.mistakes([str(checkout / name) for name in names])
    assert 'shop/a.py", line 2' in said
    assert said.count("SyntaxError") == 1


@pytest.mark.parametrize("break_it", [Path.unlink, lambda path: path.write_bytes(b"\0")])
def test_a_change_back_is_none(break_it: Callable[[Path], object], checkout: Path) -> None:
    """What is as it was when the processes were started needs no new start."""
    code = changes.Code(checkout)
    file = checkout / "shop/tasks.py"
    before, state = file.read_bytes(), file.stat()
    break_it(file)
    assert told(code, checkout) == ["shop/tasks.py"]
    file.write_bytes(before)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert told(code, checkout) == []
