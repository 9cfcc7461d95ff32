"""Statements are declared in the modules that call them, each once, and are read when these are imported."""

import ast
import errno
import re
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from project.checkout import CHECKOUT
from tests.rooms import statement
from weir.postgres.statements import executed

ROOMS_OF_WEIR = ("weir/api", "weir/ops", "weir/postgres", "weir/redis_link")
ROOTS = ("demo", "notifications", "project", "ratelimit", *ROOMS_OF_WEIR, "workers")
FILES = [file for root in ROOTS for file in (CHECKOUT / root).rglob("sql/*.sql")]
# One call of each is work for thousands of rows, or for a page that somebody looks at.
LONG = {"claim", "dispatch", "fetch_list", "overview", "rollup", "store"}


class Declaration(NamedTuple):
    """What a module says of a statement."""

    constant: str
    file: Path
    commits: bool


def declarations() -> list[Declaration]:
    modules = [module for root in ROOTS for module in (CHECKOUT / root).rglob("*.py")]
    return [declared for module in modules if "Statement(" in module.read_text() for declared in declared_in(module)]


def declared_in(module: Path) -> list[Declaration]:
    room = next(folder for folder in module.parents if (folder / "sql").is_dir())
    return [
        Declaration(ast.unparse(target), room / "sql" / f"{name}.sql", bool(given["commits"]))
        for target, call in assigned(ast.parse(module.read_text()))
        if ast.unparse(call.func) == "Statement"
        for name in [ast.literal_eval(call.args[0])]
        for given in [{key.arg: key.value.value for key in call.keywords if isinstance(key.value, ast.Constant)}]
    ]


def assigned(module: ast.Module) -> list[tuple[ast.expr, ast.Call]]:
    """Return what is assigned at the head of a module, where that is a call."""
    found = []
    for node in module.body:
        match node:
            case (
                ast.Assign(targets=[target], value=ast.Call() as call)
                | ast.AnnAssign(target=target, value=ast.Call() as call)
            ):
                found.append((target, call))
    return found


def test_each_file_is_declared_and_each_declaration_has_a_file() -> None:
    assert len(FILES) > 150
    assert {declared.file for declared in declarations()} == set(FILES)


def test_a_statement_is_declared_once() -> None:
    """For each way of committing. So who looks for it finds one place, and what it returns is said once."""
    known: dict[tuple[Path, bool], str] = {}
    for constant, file, commits in declarations():
        assert (file, commits) not in known, f"{constant} is declared as {known.get((file, commits))}, too"
        known[file, commits] = constant


def test_a_statement_is_called_as_its_file() -> None:
    """Where a file is declared in two ways, one name says so."""
    for constant, file, commits in declarations():
        assert constant == file.stem.upper() or (constant == f"{file.stem.upper()}_WITHIN" and not commits), constant


def test_what_grants_something_commits_by_itself() -> None:
    """It is used after the call, so it must be committed then: a call in a transaction is refused.

    The ledger of e-mails commits what it begins, with what the e-mail tells, before it returns.
    """
    granting = [declared for declared in declarations() if "weir_timeline_is_known(" in declared.file.read_text()]
    assert {"claim", "dispatch", "reserve"} <= {declared.file.stem for declared in granting}
    assert {declared.constant for declared in granting if not declared.commits} == {"BEGIN_WITHIN"}


def test_comments_name_statements_that_are_there() -> None:
    """Also where one is renamed: a reader who looks for it finds it."""
    named = {(file.name, name) for file in FILES for name in re.findall(r"\b\w+\.sql\b", file.read_text())}
    assert named
    assert [(file, name) for file, name in sorted(named) if name not in {file.name for file in FILES}] == []


def test_a_declared_statement_is_read() -> None:
    """A process that has run out of file descriptors executes all that its modules declare."""
    store = statement("weir.workers.fetches", "store")

    def no_descriptor_left(*_arguments: object, **_options: object) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "read_text", no_descriptor_left)
        text = store.text
    assert words(text) == words((CHECKOUT / "workers/fetches/sql/store.sql").read_text())


def test_what_is_executed_says_what_the_file_says() -> None:
    """But for comments, line breaks, indents, and the columns that are another type in each project."""
    for file in FILES:
        text = file.read_text().replace("::user_key", "::bigint")
        assert words(executed(file.read_text())) == words(text), file


def words(text: str) -> list[str]:
    """Return what PostgreSQL reads of a statement."""
    return re.sub(r"--.*", "", text).split()


def test_psycopg_remembers_how_it_has_read_a_statement() -> None:
    """It does so of those that are no longer than this; others it reads anew each time."""
    assert {file.stem for file in FILES if len(executed(file.read_text())) > MAX_CACHED_STATEMENT_LENGTH} == LONG
