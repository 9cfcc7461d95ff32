"""The directive `command`: what `manage.py NAME --help` says, with all its subcommands.

```{command} sites
```
"""

import argparse
import inspect
from collections.abc import Iterator

from django.core.management import get_commands, load_command_class
from django.core.management.base import DjangoHelpFormatter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from weir.workers.cli.actions import EXAMPLES

from . import tables

COMMON = {"-h", *DjangoHelpFormatter.show_last}  # what every command of Django's takes
WIDTH = 92  # characters of a line of usage


class CommandHelp(SphinxDirective):
    """Shows usage, description and options of a command of manage.py, and of its subcommands below."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what the command's own parser says."""
        name = self.arguments[0]
        command = load_command_class(get_commands()[name], name)
        self.env.note_dependency(inspect.getfile(type(command)))
        parser = command.create_parser("manage.py", name)
        shown = list(_shown(parser, parser.description))
        for action in _subcommands(parser):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for title, subparser in action.choices.items():
                shown.append(self._section(f"{name} {title}", subparser, helps.get(title)))
        return shown

    def _section(self, title: str, parser: argparse.ArgumentParser, description: str | None) -> nodes.section:
        section = nodes.section("", nodes.title(title, title), names=[nodes.fully_normalize_name(title)])
        section += list(_shown(parser, parser.description or description))
        self.state.document.note_implicit_target(section, section)
        return section


def _subcommands(parser: argparse.ArgumentParser) -> Iterator["argparse._SubParsersAction[argparse.ArgumentParser]"]:
    return (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def _shown(parser: argparse.ArgumentParser, description: str | None) -> Iterator[nodes.Node]:
    """Return usage, description, arguments and epilog: without what every command takes."""
    for action in parser._actions:
        if COMMON & set(action.option_strings):
            action.help = argparse.SUPPRESS
    yield tables.code_block(_usage(parser), "text")
    if description:
        yield nodes.paragraph("", "", *tables.prose(_sentence(description)))
    if rows := [[tables.code(_named(parser, each)), tables.prose(each.help or "")] for each in _told(parser)]:
        yield tables.table(["Argument", "Meaning"], rows)
    if parser.epilog:
        prose, _, examples = parser.epilog.partition(f"{EXAMPLES}\n")
        if prose:
            yield nodes.paragraph("", "", *tables.prose(prose))
        if examples:
            yield tables.code_block(inspect.cleandoc(examples), "sh")


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(prog=parser.prog, width=WIDTH)
    formatter.add_usage(None, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _named(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return argparse.HelpFormatter(prog=parser.prog)._format_action_invocation(action)


def _told(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in parser._actions if action.help and action.help != argparse.SUPPRESS)


def _sentence(text: str) -> str:
    """Return the text as a sentence: a subcommand's help begins small and has no end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("command", CommandHelp)
    return {"parallel_read_safe": True}
