"""Checks shell lines without running them: every program of ours exists and takes the options it is given.

The web server must also be told to believe no headers (`project.asgi` does that), and workers to send no heartbeats to
whoever watches Celery's events: the loop that sends them waits for the broker.
"""

import importlib
import importlib.util
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import uvicorn
from celery.app.utils import find_app
from django.core.management import get_commands, load_command_class

from project.checkout import CHECKOUT

OPERATORS = {"&&", "||", "|", ";", "&"}
# Not ours: the options of these are not checked.
FOREIGN = {
    *(
        "cd",
        "curl",
        "docker",
        "echo",
        "export",
        "grep",
        "groupadd",
        "kubectl",
        "openssl",
        "pg_isready",
        "pip",
        "psql",
        "source",
        "umask",
        "useradd",
        "uv",
        "xargs",
    ),
    *("valkey-cli", "valkey-server"),
}


class NoSuchCommandError(AssertionError):
    """The line would not run, or not as it must; the message says why."""


def check_line(line: str) -> None:
    """Raise NoSuchCommandError unless each command of the line would start; `${NAME:-text}` is its text."""
    lexer = shlex.shlex(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in OPERATORS:
            check_words(words[: words.index(">")] if ">" in words else words)
            words = []
        else:
            words.append(word)


def check_words(words: Sequence[str]) -> None:
    """Raise NoSuchCommandError unless this command, split into words, would start."""
    words = list(words)
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        words.pop(0)
    if words[:1] == ["exec"]:
        words.pop(0)
    if not words or (program := Path(words[0]).name) in FOREIGN:
        return
    check = {
        "sh": _check_shell,
        "python": _check_python,
        "celery": _check_celery,
        "uvicorn": _check_uvicorn,
        "make": _check_make,
    }.get(program)
    if check is None:
        raise NoSuchCommandError(f"nobody knows {program}")
    try:
        check(words[1:])
    except NoSuchCommandError:
        raise
    except Exception as error:
        raise NoSuchCommandError(f"{shlex.join(words)}: {type(error).__name__}: {error}") from error


def make_targets() -> list[str]:
    """Return the targets that the Makefile describes, in its order."""
    return re.findall(r"^([a-z]+):.*## ", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)


def _check_shell(arguments: list[str]) -> None:
    check_line(arguments[arguments.index("-c") + 1])


def _check_python(arguments: list[str]) -> None:
    match arguments:
        case ["manage.py" | "../manage.py", name, *options]:
            _check_manage(name, options)
        case ["-c", code]:
            compile(code, "<command line>", "exec")
        case ["-m", module, *_] if importlib.util.find_spec(module):
            pass
        case _:
            raise NoSuchCommandError(f"nobody knows python {shlex.join(arguments)}")


def _check_manage(name: str, options: list[str]) -> None:
    app = get_commands().get(name)
    if app is None:
        raise NoSuchCommandError(f"there is no manage.py {name}")
    command = load_command_class(app, name) if isinstance(app, str) else app
    command.create_parser("manage.py", name).parse_args(options)


def _check_celery(arguments: list[str]) -> None:
    from celery.bin.base import CLIContext  # noqa: PLC0415
    from celery.bin.celery import celery  # noqa: PLC0415  it imports a shell's line editor, which no test needs

    match arguments:
        case ["-A", app, name, *options]:
            parent = click.Context(celery, obj=CLIContext(app=find_app(app), no_color=True, workdir=None))
            context = celery.commands[name].make_context(name, options, parent=parent)
            if context.args:
                raise NoSuchCommandError(f"celery {name} does not take {shlex.join(context.args)}")
            if not context.params.get("without_heartbeat", True):
                raise NoSuchCommandError("its loop would wait for a broker that says nothing: add --without-heartbeat")
        case _:
            raise NoSuchCommandError(f"celery needs -A: {shlex.join(arguments)}")


def _check_uvicorn(arguments: list[str]) -> None:
    context = uvicorn.main.make_context("uvicorn", arguments)
    module, _, name = context.params["app"].partition(":")
    getattr(importlib.import_module(module), name)
    if context.params["http"] != "project.front.server:Protocol":
        raise NoSuchCommandError("heads would have no bound: add --http project.front.server:Protocol")
    if context.params["ws"] != "none":
        raise NoSuchCommandError("a websocket's handshake would have no bound, and no page speaks it: add --ws none")
    if not context.params["timeout_graceful_shutdown"]:
        raise NoSuchCommandError("its stop would wait for clients that read slowly: add --timeout-graceful-shutdown")
    if context.params["proxy_headers"]:
        raise NoSuchCommandError("uvicorn would believe whoever connects from 127.0.0.1: add --no-proxy-headers")


def _check_make(arguments: list[str]) -> None:
    variables = dict(word.split("=", 1) for word in arguments if "=" in word)
    for target in (word for word in arguments if "=" not in word):
        if target not in make_targets():
            raise NoSuchCommandError(f"there is no make {target}")
        if target in {"demo", "up"}:
            _check_manage(target, shlex.split(variables.get("ARGS", "")))
