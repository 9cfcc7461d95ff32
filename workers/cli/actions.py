"""Commands with actions, such as `manage.py sites set`: all have one grammar, and one way to answer and to refuse.

    manage.py COMMAND [ACTION] [ARGUMENTS] [--json]

1. A command declares its actions. Without an action on the command line it runs `list`, with the defaults of `list`.
2. A misspelt word or option ends the command with exit status 2, and a suggestion of what was meant.
3. The action returns a `Result`, which is printed as text, or with `--json` as one JSON object.
4. Refusals are written to stderr at the end; the exit status is then 1.
"""

import argparse
import json
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar, NoReturn, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter

from weir.conf.texts.suggestions import did_you_mean, no_such_word

DEFAULT = "list"
MISTYPED = 2  # exit status
EXIT_STATUSES = "Exit status: 0; 1 when it was refused or failed, as stderr says; 2 when it was typed wrongly."
EXAMPLES = "Examples:"  # the heading of the examples at the end of a help
WIDTH = 100  # characters of a line of help


@dataclass(frozen=True, kw_only=True)
class Result:
    """What an action found or did, as text and as data, and the sentences of its refusals."""

    text: Callable[[], str]
    data: object
    refused: Sequence[str] = ()  # one sentence each
    status: int = 0  # the exit status, if nothing was refused


class Subcommand(ABC):
    """One action of a command."""

    name: ClassVar[str]
    help: ClassVar[str]  # one line
    description: ClassVar[str] = ""  # a longer text than `help`, if needed
    examples: ClassVar[Sequence[str]]  # what follows `manage.py COMMAND`

    def add_arguments(self, parser: CommandParser) -> None:  # noqa: B027  some have none
        """Declare the arguments of the action, except `--json`, which every action has."""

    @abstractmethod
    def run(self, *args: Any, **options: Any) -> Result | bytes:
        """Run the action. Bytes that it returns are written to stdout unchanged."""


class HelpFormatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions and examples, and shows Django's common options at the end."""


class ActionParser(CommandParser):
    """Refuses a mistyped command line in one or two sentences, which suggest what was meant."""

    def error(self, message: str) -> NoReturn:
        """End with exit status 2; in `call_command`, raise CommandError."""
        end = "" if message.endswith((".", "?")) else "."
        sentence = f"{self.prog}: {message}{end} `{self.prog} --help` shows what it takes."
        if self.called_from_command_line:
            self.exit(MISTYPED, f"{sentence}\n")
        raise CommandError(sentence, returncode=MISTYPED)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # noqa: ANN401  argparse's own overloads
        """Parse the words; refuse those that this parser does not know."""
        words = sys.argv[1:] if args is None else list(args)
        if actions := self._actions_by_name():
            self._refuse_early_options(words, actions)
        else:
            self._refuse_unknown_options(words)
        known, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error(self._refusal(unknown))
        return known, unknown

    def _refuse_early_options(self, words: Sequence[str], actions: dict[str, "ActionParser"]) -> None:
        """Refuse an option that stands before the action to which it belongs."""
        own = self.options()
        for word in words:
            option = word.partition("=")[0]
            if not option.startswith("-") or any(known.startswith(option) for known in own):
                return
            if owners := [name for name, parser in actions.items() if option in parser.options()]:
                self.error(f"{option} belongs to an action, as in `{self.prog} {owners[0]} {option}`")
            of_actions = (known for parser in actions.values() for known in parser.options())
            self.error(no_such_option(option, {*own, *of_actions}))

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        """Refuse an unknown long option. argparse would first say that the option is missing whose name is misspelt."""
        own = self.options()
        for word in takewhile("--".__ne__, words):
            option = word.partition("=")[0]
            if option.startswith("--") and not any(known.startswith(option) for known in own):
                self.error(no_such_option(option, own))

    def _refusal(self, unknown: Sequence[str]) -> str:
        for word in unknown:
            if word.startswith("-"):
                return no_such_option(word.partition("=")[0], self.options())
        return f"it takes no {unknown[0]!r}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401  argparse's own
        """Refuse an unknown action with a suggestion; argparse itself would only list the known actions."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(None, no_such_word(str(value), map(str, action.choices), action.dest))

    def options(self) -> list[str]:
        """Return all options, such as --json."""
        return [option for action in self._actions for option in action.option_strings]

    def _actions_by_name(self) -> dict[str, "ActionParser"]:
        return next((a.choices for a in self._actions if isinstance(a, argparse._SubParsersAction)), {})  # noqa: SLF001  argparse has no public name for it


class ExactCommand(BaseCommand):
    """A command that refuses a mistyped command line with a suggestion, and whose help may have examples."""

    examples: ClassVar[Sequence[str]] = ()  # what follows `manage.py COMMAND`

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return the parser of the command; the parsers of its actions have the same class."""
        parser = super().create_parser(prog_name or "manage.py", subcommand, formatter_class=HelpFormatter, **kwargs)
        parser.description = _wrapped(self.help)
        if self.examples:
            parser.epilog = _examples(parser.prog, self.examples)
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        parser.__class__ = ActionParser  # Django has no option for it; both classes have the same state


class ActionCommand(ExactCommand):
    """A command whose actions are objects."""

    actions: ClassVar[Sequence[Subcommand]]
    refusals: ClassVar[tuple[type[Exception], ...]] = ()  # errors whose text is the sentence of a refusal

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


def no_such_option(option: str, known: Collection[str]) -> str:
    """Return the sentences that refuse an unknown option."""
    return f"there is no option {option}.{did_you_mean(option, sorted(known))}"


def _examples(prog: str, examples: Sequence[str]) -> str:
    return "\n".join([EXAMPLES, *(f"  python {prog} {example}".rstrip() for example in examples)])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)
