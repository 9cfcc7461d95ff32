"""Commands with actions: their examples can be typed, and what is misspelt is refused with what may have been meant."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, cast

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError

from weir.workers.cli.actions import ActionCommand, ActionParser

COMMANDS = ("sites", "fetches", "emails")
APPS = ("demo", "project", "weir")  # and those below them
DJANGOS = {"flush", "migrate"}
OWN = [name for name, app in get_commands().items() if app.split(".")[0] in APPS and name not in DJANGOS]
EXAMPLE = re.compile(r"^  python manage\.py (.+)$", re.MULTILINE)


def parser_of(name: str) -> ActionParser:
    command = load_command_class(get_commands()[name], name)
    return cast("ActionParser", command.create_parser("manage.py", name))


def helps() -> Iterator[Any]:
    """Yield the help of each action, and that of status."""
    for name in COMMANDS:
        for action, parser in parser_of(name)._actions_by_name().items():
            yield pytest.param(parser.format_help(), id=f"{name} {action}")
    for name in ("status", "fetch"):
        yield pytest.param(parser_of(name).format_help(), id=name)


@pytest.mark.parametrize("text", list(helps()))
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
        assert "--json" in parser_of(name)._actions_by_name()[action.name].options()


@pytest.mark.parametrize("name", [*COMMANDS, "status"])
def test_the_help_says_the_exit_statuses(name: str) -> None:
    assert re.search(r"Exit\s+status:\s+0;\s+1\s", parser_of(name).format_help())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "sites forcast a.example",
            "There is no action 'forcast'. Did you mean forecast? The actions are list, show, ",
        ),
        ("sites xyz", "There is no action 'xyz'. The actions are list, show, "),
        ("sites set a.example --burts 3", "there is no option --burts. Did you mean --burst? "),
        ("sites list --limti=3", "there is no option --limti. Did you mean --limit? "),
        ("sites --limit 3", "--limit belongs to an action, as in `manage.py sites list --limit`. "),
        ("sites --limti 3", "there is no option --limti. Did you mean --limit? "),
        ("sites resume a.example b.example", "it takes no 'b.example'. "),
        ("sites pause", "the following arguments are required: HOST. "),
        ("fetches list --state faild", "There is no state 'faild'. Did you mean failed? The states are queued, "),
        ("emails list --state unknwon", "There is no state 'unknwon'. Did you mean unknown? The states are pending, "),
        (
            "emails resolv 7",
            "There is no action 'resolv'. Did you mean resolve? The actions are list, show, resolve, resend, cancel, ",
        ),
        ("sites --verbosiyt 1 list", "there is no option --verbosiyt. Did you mean --verbosity? "),
        ("emails resolve 7 --arived --why x", "there is no option --arived. Did you mean --arrived? "),
        ("check_heartbeat --proccess=beat", "there is no option --proccess. Did you mean --process? "),
        ("status --jsno", "there is no option --jsno. Did you mean --json? "),
    ],
)
def test_what_is_misspelt_is_refused_with_what_may_have_been_meant(line: str, sentence: str) -> None:
    """With exit status 2, and where the help is."""
    with pytest.raises(CommandError) as refusal:
        call_command(*line.split())
    assert sentence in str(refusal.value)
    assert refusal.value.returncode == 2


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    """As with all commands; an option may be shortened."""
    options = parser_of("fetch").parse_args(["--prio=3", "--", "--jsno"])
    assert (options.priority, options.urls) == (3, ["--jsno"])


@pytest.mark.parametrize("name", OWN)
def test_each_command_refuses_an_option_that_it_does_not_have(name: str) -> None:
    """In the same words, also where the others of its options are Django's."""
    with pytest.raises(CommandError) as refusal:
        call_command(name, "--verbosiyt=1")
    assert str(refusal.value) == (
        f"manage.py {name}: there is no option --verbosiyt. Did you mean --verbosity? "
        f"`manage.py {name} --help` shows what it takes."
    )


def test_a_terminal_gets_the_sentence_and_no_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr."""
    command = load_command_class(get_commands()["sites"], "sites")
    with pytest.raises(SystemExit) as end:
        command.run_from_argv(["manage.py", "sites", "pasue", "a.example"])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "manage.py sites: There is no action 'pasue'. Did you mean pause? "
        "The actions are list, show, set, pause, resume, forecast, delete. "
        "`manage.py sites --help` shows what it takes.\n"
    )
