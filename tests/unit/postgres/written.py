"""What statements and modules write: which tables, which of their columns, and which rows they lock."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

LOCKS = "LOCK"  # rows, until the transaction ends
# Of a manager, a queryset or a row, by what a statement would do.
ORM = {
    **dict.fromkeys(("create", "bulk_create", "get_or_create"), "INSERT"),
    **dict.fromkeys(("update", "bulk_update", "update_or_create", "save"), "UPDATE"),
    **dict.fromkeys(("delete", "_raw_delete"), "DELETE"),
    "select_for_update": LOCKS,
}
_TABLE = r'"?(weir_\w+)"?'
_WRITES = re.compile(rf"\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|LOCK)(?: INTO| FROM| TABLE| ONLY)* {_TABLE}")
_SET = re.compile(r"\bSET (.*?)(?=(?<! DISTINCT) FROM | WHERE | RETURNING |$)")
_READS = re.compile(rf"(?:FROM|JOIN|,)(?: ONLY)? {_TABLE}(?: AS (\w+))?")
_LOCKS = re.compile(r"\bFOR (?:NO KEY )?(?:UPDATE|SHARE|KEY SHARE)(?: OF (\w+(?:, \w+)*))?")
_GROUP = re.compile(r"\(([^()]*)\)")
_SET_LATER = "?"  # columns that are set together, as a row: (a, b) = (SELECT ...)


class Written(NamedTuple):
    """A table that is written, or whose rows are locked, and the columns that an UPDATE sets."""

    how: str
    table: str
    columns: frozenset[str] = frozenset()


def by_sql(text: str) -> Iterator[Written]:
    """Yield what SQL writes; its words are in capitals, as in all statements of Weir's."""
    for level in _levels(text):
        for found in _WRITES.finditer(level):
            rest = _SET.search(level, found.end())
            columns = _columns(rest[1]) if found[1] == "UPDATE" and rest else frozenset()
            yield Written(found[1], found[2], columns)
        for lock in _LOCKS.finditer(level):
            of = lock[1] and lock[1].split(", ")
            for table, alias in _READS.findall(level):
                if not of or (alias or table) in of:
                    yield Written(LOCKS, table)


def by_module(text: str, tables: Mapping[str, str]) -> Iterator[Written]:
    """Yield what a module writes by its models, or by SQL of its own; `tables` has the table of each model's name."""
    module = ast.parse(text)
    assigned: dict[str, ast.expr] = {}
    models: dict[str, str] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                assigned[name] = value
            case ast.For(target=ast.Name(id=name), iter=value) | ast.NamedExpr(target=ast.Name(id=name), value=value):
                assigned[name] = value
            case ast.ImportFrom(names=names):
                models |= {name.asname or name.name: tables[name.name] for name in names if name.name in tables}
            case ast.Constant(value=str(sql)):
                yield from by_sql(sql)
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=attr), keywords=given) if attr in ORM:
                if (root := _root(of, assigned)) in models:
                    columns = frozenset(key.arg or _SET_LATER for key in given) if attr == "update" else frozenset()
                    yield Written(ORM[attr], models[root], columns)


def _levels(text: str) -> Iterator[str]:
    """Yield the text without what stands in parentheses, and what stands in each, likewise."""
    text = re.sub(r"--[^\n]*|'[^']*'", "", text)
    while group := _GROUP.search(text):
        yield " ".join(group[1].split())
        text = f"{text[: group.start()]}<>{text[group.end() :]}"
    yield " ".join(text.split())


def _columns(assignments: str) -> frozenset[str]:
    names = [re.match(r'"?(\w+)"? =', assignment.strip()) for assignment in assignments.split(",")]
    return frozenset(name[1] if name else _SET_LATER for name in names)


def _root(of: ast.expr, assigned: Mapping[str, ast.expr]) -> str:
    """Return the name with which a chain of calls begins; of a variable, that with which its value begins."""
    seen: set[str] = set()
    while True:
        match of:
            case ast.Attribute(value=of) | ast.Subscript(value=of) | ast.Call(func=of):
                pass
            case ast.Name(id=name) if name in assigned and name not in seen:
                seen.add(name)
                of = assigned[name]
            case ast.Name(id=name):
                return name
            case _:
                return ""
