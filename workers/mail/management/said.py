"""Who does something about e-mails, and why: both are kept."""

import argparse
import getpass

from django.core.management.base import CommandError, CommandParser

from workers.mail.models import Resolution

LONGEST_WHO: int = Resolution._meta.get_field("who").max_length or 0  # noqa: SLF001  documented, in spite of its name


def add_arguments(parser: CommandParser) -> None:
    """Declare --why and --who."""
    parser.add_argument(
        "--why", type=words, required=True, metavar="TEXT", help="your reason, or what you found out; it is kept"
    )
    parser.add_argument(
        "--who", type=name, metavar="NAME", help="who does it; default: your name in the operating system"
    )


def words(text: str) -> str:
    """Return a text without the blanks around it, for argparse; it must not be blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it must not be blank")
    return text.strip()


def name(text: str) -> str:
    """Return the name of a person, for argparse."""
    if len(words(text)) > LONGEST_WHO:
        raise argparse.ArgumentTypeError(f"it must have {LONGEST_WHO} characters at most")
    return words(text)


def me() -> str:
    """Return the name of who types, in the operating system. Raises CommandError where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a container whose user has a number only
        raise CommandError("The operating system does not know your name: say it with --who.") from error
