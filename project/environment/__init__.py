"""The environment variables that Weir reads: typed, with all mistakes told at once.

`variables` declares them, `values` says how each kind is written. The settings reference and .env.example are made of
the declarations (`python -m project.environment.reference`).
"""

import os
from contextlib import suppress
from pathlib import Path

from dotenv import load_dotenv
from dotenv.parser import parse_stream
from pydantic import ValidationError

from project.environment import secret_key
from project.environment.mistakes import UnreadableVariables, sentences
from project.environment.variables import Variables

__all__ = ["UnreadableVariables", "Variables", "read"]


def read(env_file: Path) -> Variables:
    """Return the value of every variable; raises UnreadableVariables, with a sentence for each that cannot be read.

    The file's variables go into `os.environ`, because the processes that this one starts need them too. What the
    environment has wins, also where it is empty. A `$` in the file stands for itself.
    """
    with suppress(OSError):
        _check_lines(env_file)
        load_dotenv(env_file, interpolate=False)
    try:
        # Not by pydantic-settings, which would do the same, and cost each process a tenth of its start.
        found = Variables.model_validate(
            {name: os.environ[name] for name in Variables.model_fields if name in os.environ}
        )
        told = secret_key.refusal(found)
        if told is None:
            return found
    except ValidationError as error:
        told = "\n".join(sentences(error, Variables.model_fields))
    # Not raised in the `except` block: the ValidationError holds every value, and tracebacks show what led to an error.
    raise UnreadableVariables(told)


def _check_lines(env_file: Path) -> None:
    """Raise UnreadableVariables for a line that is no assignment: its variable would be left out in silence."""
    with env_file.open(encoding="utf-8") as lines:
        wrong = [binding.original.line for binding in parse_stream(lines) if binding.error]
    if wrong:
        raise UnreadableVariables(
            f"{env_file.name}, line {wrong[0]}, cannot be read: write NAME=value, and a value with quotes, # or "
            "backslashes in single quotes."
        )
