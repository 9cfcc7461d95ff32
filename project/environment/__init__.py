"""The environment variables that Weir reads: typed, with all mistakes reported together.

`variables` declares the variables that only this project reads, and includes `weir.conf.declared`, which has all of
Weir's settings. `python -m project.environment.reference` makes the settings reference and .env.example from the
declarations.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from dotenv import dotenv_values, load_dotenv
from dotenv.parser import parse_stream
from pydantic import ValidationError

from project.environment import secret_key, transports, urls
from project.environment.variables import Variables
from weir.conf.mistakes import sentences

__all__ = ["UnreadableVariables", "Variables", "given", "read", "refusal", "was_decided"]


class UnreadableVariables(ImproperlyConfigured):
    """Variables cannot be read. The message has a line for each: its name, what it must be, and what it is."""


_read_here: set[str] = set()  # the variables that `read` has added to the environment
_decided: set[str] = set()  # the added variables that `decided` has returned


# If the environment sets one of these, it names another mail server than `up` decided on: no decided one is used.
_MAIL_SERVER = frozenset({"EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT", "WEIR_MAIL_RELAYS"})


def read(env_file: Path, decided: Callable[[], Mapping[str, str]] = dict) -> Variables:
    """Return the value of every variable; raises UnreadableVariables, with a sentence for each that cannot be read.

    Adds the file's variables, and those that `decided` returns, to `os.environ`, because the processes that this one
    starts need them too. A variable of the environment wins, even if it is empty, over a decided one, and that over
    the file's. A `$` in the file stands for itself.
    """
    given_names = set(os.environ)
    with suppress(OSError):
        _check_lines(env_file)
        load_dotenv(env_file, interpolate=False)
    mail = _MAIL_SERVER if any(os.environ.get(name) for name in _MAIL_SERVER) else frozenset()
    added = {name: value for name, value in decided().items() if name not in given_names | mail}
    os.environ.update(added)
    _decided.update(added)
    _read_here.update(set(os.environ) - given_names)
    found, told = _validated(os.environ)
    if found is None or told:
        raise UnreadableVariables(told)
    return found


def refusal(env_file: Path, environment: Mapping[str, str]) -> str:
    """Return the sentences with which `read` would refuse the file in a process with this environment, or ""."""
    values: dict[str, str | None] = {}
    try:
        with suppress(OSError):
            _check_lines(env_file)
            values = dotenv_values(env_file, interpolate=False)
    except UnreadableVariables as error:
        return str(error)
    return _validated({**{name: value for name, value in values.items() if value is not None}, **environment})[1]


def _validated(values: Mapping[str, str]) -> tuple[Variables | None, str]:
    """Return the variables, or the sentences about the variables that cannot be read.

    Raises nothing: a ValidationError has every value, and a traceback would show them.
    """
    try:
        # pydantic-settings would do the same, but would make the start of each process a tenth longer.
        found = Variables.model_validate({name: values[name] for name in Variables.model_fields if name in values})
    except ValidationError as error:
        return None, "\n".join(sentences(error, Variables.model_fields))
    broker, redis = found.CELERY_BROKER_URL.get_secret_value(), found.REDIS_URL.get_secret_value()
    return found, secret_key.refusal(found) or urls.refusal(broker, redis) or transports.other_brokers(values) or ""


def given() -> dict[str, str]:
    """Return the environment that this process was started with, without the variables that `read` has added."""
    return {name: value for name, value in os.environ.items() if name not in _read_here}


def was_decided() -> bool:
    """Return whether `read` has added a variable that its argument `decided` returned."""
    return bool(_decided)


def _check_lines(env_file: Path) -> None:
    """Raise UnreadableVariables for a line that is not an assignment, which would be ignored silently."""
    with env_file.open(encoding="utf-8") as lines:
        try:
            wrong = [binding.original.line for binding in parse_stream(lines) if binding.error]
        except UnicodeDecodeError:
            raise UnreadableVariables(f"{env_file.name} cannot be read: it is not in UTF-8.") from None
    if wrong:
        raise UnreadableVariables(
            f"{env_file.name}, line {wrong[0]}, cannot be read: write NAME=value, and a value with quotes, # or "
            "backslashes in single quotes."
        )
