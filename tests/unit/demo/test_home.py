"""`python -m demo`: the demo's command, in the environment that it needs, from the start."""

import os
import runpy
import sys
from pathlib import Path

import pytest

from demo import __main__ as entry
from demo import home
from project.checkout import CHECKOUT


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines with which manage.py ran; nothing runs, and the environment is as before afterwards."""
    found: list[list[str]] = []
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(runpy, "run_path", lambda _path, run_name: found.append([run_name, *sys.argv]))
    return found


@pytest.mark.parametrize("words", [["--home", "{home}"], ["--home={home}", "--headless"], ["--duration", "5"]])
def test_the_command_need_not_start_again(
    words: list[str], ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets all arguments; and `enter`, which would start it again in another environment, does nothing."""
    arguments = [word.format(home=tmp_path) for word in words]
    monkeypatch.setattr(os, "execve", lambda *_arguments: pytest.fail("it was started again"))

    entry.main(arguments)

    assert ran == [["__main__", str(CHECKOUT / "manage.py"), "demo", *arguments]]
    home.enter(tmp_path if "home" in words[0] else home.DEFAULT)


def test_a_home_without_a_folder_is_left_to_the_command(ran: list[list[str]]) -> None:
    """The command says what is wrong with its arguments, whatever that is."""
    entry.main(["--home"])

    assert ran[0][2:] == ["demo", "--home"]
