"""Commands with actions, such as `manage.py sites set`: one grammar, and one way to answer and to refuse.

    manage.py COMMAND [ACTION] [ARGUMENTS] [--json]

1. A command declares its actions. Without an action on the command line it runs `list`, with the defaults of `list`.
2. A misspelt word or option ends the command with exit status 2.
3. The action returns a `Result`, which is printed as text, or with `--json` as one JSON object.
4. Refusals are written to stderr at the end; the exit status is then 1.
"""

import argparse
import json
import shutil
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, NoReturn, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter

DEFAULT = "list"
MISTYPED = 2  # exit status
EXIT_STATUSES = "Exit status: 0; 1 when it was refused or failed, as stderr says; 2 when it was typed wrongly."
EXAMPLES = "Examples:"  # begins the end of a help
WIDTH = 100  # characters of a line of help


@dataclass(frozen=True, kw_only=True)
class Result:
    """What an action found or did, for people and for machines, and what it refused."""

    text: Callable[[], str]
    data: object
    refused: Sequence[str] = ()  # one sentence each
    status: int = 0  # the exit status, if nothing was refused


class Subcommand(ABC):
    """One action of a command."""

    name: ClassVar[str]
    help: ClassVar[str]  # one line
    description: ClassVar[str] = ""  # if there is more to say than the help does
    examples: ClassVar[Sequence[str]]  # what follows `manage.py COMMAND`

    def add_arguments(self, parser: CommandParser) -> None:  # noqa: B027  some have none
        """Declare the arguments of the action, except `--json`, which each has."""

    @abstractmethod
    def run(self, *args: Any, **options: Any) -> Result | bytes | BinaryIO:
        """Run the action. Bytes that it returns are written to stdout unchanged."""


class HelpFormatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions and examples, and shows the options of all commands at the end."""


class ActionParser(CommandParser):
    """Refuses what was typed wrongly in one sentence, and says where the help is."""

    def error(self, message: str) -> NoReturn:
        """End with exit status 2; in `call_command`, raise CommandError."""
        end = "" if message.endswith((".", "?")) else "."
        sentence = f"{self.prog}: {message}{end} `{self.prog} --help` shows what it takes."
        if self.called_from_command_line:
            self.exit(MISTYPED, f"{sentence}\n")
        raise CommandError(sentence, returncode=MISTYPED)


class ExactCommand(BaseCommand):
    """A command that refuses what was typed wrongly in one sentence, and whose help may have examples."""

    examples: ClassVar[Sequence[str]] = ()  # what follows `manage.py COMMAND`

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return the parser of the command; that of its actions is of the same class."""
        parser = super().create_parser(prog_name or "manage.py", subcommand, formatter_class=HelpFormatter, **kwargs)
        parser.description = _wrapped(self.help)
        if self.examples:
            parser.epilog = _examples(parser.prog, self.examples)
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        parser.__class__ = ActionParser  # Django has no option for it; both classes have the same state


class ActionCommand(ExactCommand):
    """A command of which each action is an object."""

    actions: ClassVar[Sequence[Subcommand]]
    refusals: ClassVar[tuple[type[Exception], ...]] = ()  # errors whose text is the sentence that refuses

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.epilog = _wrapped(
            f"Without an action: {DEFAULT}. `{parser.prog} ACTION --help` has examples. {EXIT_STATUSES}"
        )
        shown = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", parser_class=ActionParser)
        for action in self.actions:
            own = shown.add_parser(
                action.name,
                help=action.help,
                description=_wrapped(action.description or _sentence(action.help)),
                epilog=_examples(parser.prog, action.examples),
                formatter_class=HelpFormatter,
            )
            action.add_arguments(own)
            own.add_argument("--json", action="store_true", help="one JSON object instead of text")
        self._defaults = shown.choices[DEFAULT].parse_args

    def handle(self, *_args: object, **options: Any) -> None:
        if options["action"] is None:
            options |= {**vars(self._defaults([])), "action": DEFAULT}
        action = next(action for action in self.actions if action.name == options["action"])
        try:
            answer = action.run(**options)
            if not isinstance(answer, bytes | Result):  # a file, which may be refused while it is read
                with answer:
                    shutil.copyfileobj(answer, cast("Any", self.stdout).buffer)
                return
        except self.refusals as refusal:
            raise CommandError(str(refusal)) from refusal
        if isinstance(answer, bytes):
            cast("Any", self.stdout).buffer.write(answer)
            return
        self._print(answer, as_json=options["json"])

    def _print(self, answer: Result, *, as_json: bool) -> None:
        text = json.dumps(answer.data) if as_json else answer.text()
        if text:
            self.stdout.write(text)
        if answer.refused:
            raise CommandError("\n".join(answer.refused))
        if answer.status:
            sys.exit(answer.status)


def _examples(prog: str, examples: Sequence[str]) -> str:
    return "\n".join([EXAMPLES, *(f"  python {prog} {example}".rstrip() for example in examples)])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)
