"""The options --who and --why of commands that change something; the audit trail keeps both. And --seen."""

import argparse

from django.core.management.base import CommandParser

from weir.workers.audit import acting
from weir.workers.cli.arguments import utf8


def add_arguments(parser: CommandParser, *, wants_reason: bool = False) -> None:
    """Declare --why and --who."""
    parser.add_argument(
        "--why",
        type=words,
        default=argparse.SUPPRESS,
        required=wants_reason,
        metavar="TEXT",
        help="your reason, or what you found out; it is kept",
    )
    parser.add_argument(
        "--who", type=name, metavar="NAME", help="who does it; default: your name in the operating system"
    )


def add_seen(parser: CommandParser, printed_by: str) -> None:
    """Declare --seen, for what a person decides by looking at it."""
    parser.add_argument(
        "--seen",
        type=words,
        metavar="VERSION",
        help=f"only if it still has this version, which {printed_by} prints: what was changed since is left alone",
    )


def words(text: str) -> str:
    """Return a text without the blanks around it, for argparse; it must not be blank."""
    if not utf8(text).strip():
        raise argparse.ArgumentTypeError("it must not be blank")
    return text.strip()


def name(text: str) -> str:
    """Return the name of a person, for argparse."""
    if len(words(text)) > acting.LONGEST_ACTOR:
        raise argparse.ArgumentTypeError(f"it must have {acting.LONGEST_ACTOR} characters at most")
    return words(text)
