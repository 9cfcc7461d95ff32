"""Commands with actions: their examples can be typed, and what is misspelt is refused in one sentence."""

import argparse
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError, CommandParser

from tests.cases import for_each
from weir.workers.cli.actions import ActionCommand

COMMANDS = ("sites", "fetches", "emails")
APPS = ("demo", "project", "weir")  # and those below them
DJANGOS = {"flush", "migrate"}
OWN = [name for name, app in get_commands().items() if app.split(".")[0] in APPS and name not in DJANGOS]
EXAMPLE = re.compile(r"^  python manage\.py (.+)$", re.MULTILINE)


def parser_of(name: str) -> CommandParser:
    return load_command_class(get_commands()[name], name).create_parser("manage.py", name)


def actions_of(name: str) -> dict[str, CommandParser]:
    """Return the parsers of the command's actions."""
    [actions] = [each.choices for each in parser_of(name)._actions if isinstance(each, argparse._SubParsersAction)]
    return actions


def helps() -> Iterator[Any]:
    """Yield the help of each action, and that of status."""
    for name in COMMANDS:
        for action, parser in actions_of(name).items():
            yield pytest.param(parser.format_help(), id=f"{name} {action}")
    for name in ("status", "fetch"):
        yield pytest.param(parser_of(name).format_help(), id=name)


@for_each("text", list(helps()))
def test_every_example_can_be_typed(text: str) -> None:
    """Each action has one at least, and the command's own parser takes it."""
    examples = [shlex.split(line) for line in EXAMPLE.findall(text)]
    assert examples
    for name, *words in examples:
        parser_of(name).parse_args(words[: words.index("<")] if "<" in words else words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_action_has_a_line_of_help_and_json(name: str) -> None:
    """So that no action needs to be looked up elsewhere, and each can be used by scripts."""
    command = load_command_class(get_commands()[name], name)
    assert isinstance(command, ActionCommand)
    for action in command.actions:
        assert action.help
        assert "\n" not in action.help
        assert "--json" in actions_of(name)[action.name].format_help()


@for_each("name", [*COMMANDS, "status"])
def test_the_help_says_the_exit_statuses(name: str) -> None:
    assert re.search(r"Exit\s+status:\s+0;\s+1\s", parser_of(name).format_help())


@for_each(
    ("line", "sentence"),
    [
        ("sites forcast a.example", "invalid choice: 'forcast' (choose from "),
        ("sites set a.example --burts 3", "unrecognized arguments: --burts 3. "),
        ("sites resume a.example b.example", "unrecognized arguments: b.example. "),
        ("sites pause", "the following arguments are required: HOST. "),
        ("fetches list --state faild", "There is no state 'faild'. Did you mean failed? The states are queued, "),
        ("check_heartbeat --process=beat --jsno", "unrecognized arguments: --jsno. "),
    ],
)
def test_what_is_misspelt_is_refused_in_a_sentence(line: str, sentence: str) -> None:
    """With exit status 2, and where the help is."""
    with pytest.raises(CommandError) as refusal:
        call_command(*line.split())
    assert sentence in str(refusal.value)
    assert str(refusal.value).endswith(" --help` shows what it takes.")
    assert refusal.value.returncode == 2


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    """As with all commands; an option may be shortened."""
    options = parser_of("fetch").parse_args(["--prio=3", "--", "--jsno"])
    assert (options.priority, options.urls) == (3, ["--jsno"])


@for_each("name", OWN)
def test_each_command_refuses_an_option_that_it_does_not_have(name: str) -> None:
    """In the same words, even if the others of its options are Django's."""
    with pytest.raises(CommandError) as refusal:
        call_command(name, "--verbosiyt=1")
    assert str(refusal.value).startswith(f"manage.py {name}: ")
    assert str(refusal.value).endswith(f"`manage.py {name} --help` shows what it takes.")


def test_a_terminal_gets_the_sentence_and_no_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr."""
    command = load_command_class(get_commands()["sites"], "sites")
    with pytest.raises(SystemExit) as end:
        command.run_from_argv(["manage.py", "sites", "pasue", "a.example"])
    assert end.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("manage.py sites: argument ACTION: invalid choice: 'pasue' (choose from ")
