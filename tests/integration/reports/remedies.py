"""What an answer says is to be done: a command line of `manage.py` must be one that the command takes."""

import shlex
from typing import Any

from django.core.management import get_commands, load_command_class

from weir.workers.fetches.reports.why import FetchBlocker
from weir.workers.on_done.unknown import CALLED_AGAIN

IN_WORDS = frozenset({"", "start more fetchers", CALLED_AGAIN})


def check_remedy(blocker: FetchBlocker) -> None:
    """Parse the command line with the command's own parser, which raises CommandError where it takes it not."""
    if blocker.remedy in IN_WORDS:
        return
    program, name, *words = shlex.split(blocker.remedy)
    assert program == "manage.py"
    command: Any = load_command_class(str(get_commands()[name]), name)
    command._called_from_command_line = False
    command.create_parser(program, name).parse_args(words)
