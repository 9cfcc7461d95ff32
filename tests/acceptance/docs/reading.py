"""A reader of README, quickstart, tutorial and how-to pages, who types every code block and console example of a page.

A page is a test. What is typed must end with exit status 0, or as the page states, and what is stated of an output is
compared (stated.py). Nothing is passed over in silence: what cannot be run is in `situations.NOT_RUN`, with its reason.
"""

import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

import pytest

from project import embedded
from tests.acceptance.docs import pages, situations, stated
from tests.acceptance.docs.newcomer import Newcomer, Outcome
from tests.acceptance.docs.pages import Block, Command

NOTHING = "\0"  # with which no command begins
# Byte code is kept: processes that start at once would all compile the same modules.
CLEAN = "git clean -fdqx -e .venv -e .weir -e __pycache__ -e !/local/**/__pycache__"
UP = situations.UP
SHELL = "python manage.py shell"
TO_THE_END = "All of the blocks were executed."
SHOWN_WITHIN_S = 30.0
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example that was run, and how many lines or values of its output were compared."""

    page: str
    line: int
    typed: str
    how: str
    compared: int = 0


class Reader:
    """Does what a page says, block by block."""

    def __init__(self, newcomer: Newcomer, servers: ExitStack, examples: list[Example]) -> None:
        self._newcomer = newcomer
        self._servers = servers
        self._examples = examples
        self._modules: list[str] = []  # that were written, and not imported yet
        self._in_shell: list[Block] = []  # that the reader types next, into one shell

    def read_page(self, page: str) -> None:
        """Do what the page says, from its top to its end; fails where something does not work as the page says."""
        self._begin(page)
        for block in pages.blocks(page):
            if not any(not one.only for one in not_run(block)):
                self._read(block)
        self._finish()

    def _begin(self, page: str) -> None:
        """Open the terminal in which the page begins."""
        up = self._up_for(page)
        if page in situations.FRESH:
            self._newcomer.stop_all()
            embedded.discard(self._newcomer.folder / ".weir")
        else:
            self._newcomer.stop_all(but=up or NOTHING)
        if page in situations.FRESH | situations.WITHOUT_SHOP:
            for command in ("git checkout -q .", CLEAN):
                subprocess.run(command.split(), cwd=self._newcomer.folder, check=True)
        self._newcomer.open_terminal(*(() if page in situations.FRESH else (situations.ACTIVATE,)))
        if up and not self._newcomer.terminal_of(up):
            self._start(up, f"{page} begins with `{up}` running")

    def _up_for(self, page: str) -> str:
        """Return the command by which Weir runs when the page begins; nothing where the page itself starts it."""
        typed = [
            command.typed for block in pages.blocks(page) if block.how == "sh" for command in pages.commands(block)
        ]
        if page in situations.BY_ITSELF or any(command.startswith(UP) for command in typed):
            return ""
        return UP if page in situations.RELOADED else situations.UP_WITHOUT_RELOAD

    def _read(self, block: Block) -> None:
        """Do what the block is for; fails with what came where it is not what the page says."""
        given = situations.GIVEN.get((block.page, block.first))
        if block.how != "shell" or given:
            self._type_into_shell()
        if block.first == situations.ON_OWN_SERVERS:
            self._name_servers()
        if given:
            outcome = self._newcomer.type(SHELL, given)
            self._demand(outcome.status == 0, block.name, "What is given cannot be made:", outcome.output)
        match block.how:
            case "file":
                self._write(block)
            case "sh" | "console":
                for command in pages.commands(block):
                    if not any(one.only and command.typed.startswith(one.only) for one in not_run(block)):
                        self._type(block, command)
            case "seen":
                self._see(block)
            case "shell":
                self._in_shell.append(block)
            case _:
                pytest.fail(f"{block.name} cannot be run: say in which file it stands, or list it in NOT_RUN.")

    def _name_servers(self) -> None:
        """Let the environment name servers, as a reader's does who has some; what ran on others is stopped."""
        if self._newcomer.terminal_of(UP):
            self._newcomer.stop_all()
        home = self._newcomer.notes / "servers"
        if not home.exists():
            home.mkdir()
            self._servers.enter_context(embedded.servers(home))
        for name, value in {
            "DATABASE_URL": f"postgresql://{embedded.DATABASE_USER}@/{embedded.DATABASE_NAME}"
            f"?host={embedded.postgres_socket_dir(home)}",
            "REDIS_URL": f"unix://{embedded.valkey_socket(home)}",
            "DJANGO_SECRET_KEY": "a long random text, of more than fifty characters or so",
        }.items():
            assert self._newcomer.type(f"export {name}={shlex.quote(value)}").status == 0

    def _write(self, block: Block) -> None:
        file = self._newcomer.folder / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() + "\n" if block.is_added and file.exists() else ""
        file.write_text(before + block.text)
        if block.language == "python":
            module = re.sub(r"^local/(?=\w+/)", "", block.file)  # the apps in it have names of their own
            self._modules.append(module.removesuffix(".py").replace("/", "."))
        self._note(block, block.line, block.first, f"file {block.file}")

    def _finish(self) -> None:
        """Type what is left; import what was written: what no example calls is right in this, at least."""
        self._type_into_shell()
        if self._modules:
            outcome = self._newcomer.type(SHELL, self._imports())
            self._demand(outcome.status == 0, "The files of the page cannot be imported:", outcome.output)

    def _type_into_shell(self) -> None:
        """Execute the blocks that follow each other in one shell, each without the names of the others."""
        blocks, self._in_shell = self._in_shell, []
        if not blocks:
            return
        checked = [stated.checked(block.text) for block in blocks]
        typed = [
            f"exec(compile({code!r}, {block.name!r}, 'exec'), dict(globals()))\n"
            for block, (code, _) in zip(blocks, checked, strict=True)
        ]
        outcome = self._newcomer.type(SHELL, "".join(typed) + self._imports() + f"print({TO_THE_END!r})\n")
        is_done = outcome.status == 0 and TO_THE_END in outcome.output
        self._demand(is_done, ", ".join(block.name for block in blocks), outcome.output)
        for block, (_, values) in zip(blocks, checked, strict=True):
            self._note(block, block.line, block.first, "shell", values)

    def _imports(self) -> str:
        modules, self._modules = self._modules, []
        return "".join(f"import {module}\n" for module in modules)

    def _type(self, block: Block, command: Command) -> None:
        where = f"{block.page}:{command.line}: {command.typed}"
        if shows := _first_match(situations.GOES_ON, command.typed):
            outcome = self._start(command.typed, where, shows)
        else:
            outcome = self._newcomer.type(command.typed)
            if seconds := _first_match(situations.LOOKS, command.typed):
                outcome = self._look_again(command, outcome, seconds)
        self._demand(outcome.status == 0, where, f"It ended with {outcome.status}:", outcome.output)
        if command.seen is not None:
            difference = stated.differs(command.seen, outcome.output)
            self._demand(not difference, where, difference)
        self._note(block, command.line, command.typed, block.how, stated.compared(command.seen or ""))

    def _start(self, command: str, where: str, shows: str = "") -> Outcome:
        if command.startswith(UP) and (other := self._newcomer.terminal_of(UP)):
            self._newcomer.stop(other)  # there is one, and a second one replaces it
        shows = shows or _first_match(situations.GOES_ON, command) or ""
        outcome = self._newcomer.start(command, shows)
        self._demand(outcome.status == 0, where, f"It showed no {shows!r}:", outcome.output)
        return outcome

    def _look_again(self, command: Command, outcome: Outcome, seconds: float) -> Outcome:
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at and (
            outcome.status or (command.seen is not None and stated.differs(command.seen, outcome.output))
        ):
            time.sleep(0.3)
            outcome = self._newcomer.type(command.typed)
        return outcome

    def _see(self, block: Block) -> None:
        give_up_at = time.monotonic() + SHOWN_WITHIN_S
        shown_by = self._newcomer.terminal_of(block.shown_by) or block.shown_by
        while not stated.is_among(block.text, self._newcomer.shown(shown_by)):
            self._demand(time.monotonic() < give_up_at, block.name, "That was not seen.")
            time.sleep(0.1)
        self._note(block, block.line, block.first, f"seen in {block.shown_by}", stated.compared(block.text))

    def _note(self, block: Block, line: int, typed: str, how: str, compared: int = 0) -> None:
        self._examples.append(Example(page=block.page, line=line, typed=typed, how=how, compared=compared))

    def _demand(self, holds: object, *words: str) -> None:
        """Fail with these words, and with what the other terminals showed last, unless it holds."""
        if not holds:
            last = (
                line
                for command in self._newcomer.terminals
                for line in ["", f"The last lines of `{command}`:", *self._newcomer.shown(command).splitlines()[-20:]]
            )
            pytest.fail("\n".join([*words, *last]), pytrace=False)


def _first_match(by_beginning: Mapping[str, T], typed: str) -> T | None:
    return next((found for beginning, found in by_beginning.items() if typed.startswith(beginning)), None)


def not_run(block: Block) -> list[situations.NotRun]:
    """Return the entries of the list of what is not run that speak of this block."""
    return [one for one in situations.NOT_RUN if (one.page, one.first) == (block.page, block.first)]
