"""The directive `model`: columns, constraints and indexes of a table, as its Django model defines them.

The body explains the columns that have no help text, one a line; those that mean the same in each table are in
EVERYWHERE, and the id of a table with one row is explained by itself. A column that nothing explains is a warning, and
so is one that is explained twice.

```{model} weir_ratelimit.Site
paused_until: nothing starts before
```
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from types import ModuleType
from typing import Any

from django.apps import apps
from django.db import connection, models
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from . import tables

SHORT = {"timestamp with time zone": "timestamptz", "double precision": "float8"}
EVERYWHERE = {
    "created_at": "when it was made",
    "acted_at": "when",
    "deleted_at": "when",
    "fetched_at": "when",
    "paused_at": "when",
    "rendered_at": "when",
    "reserved_at": "when",
    "resolved_at": "when",
    "revoked_at": "when",
    "next_attempt_at": "not claimed before",
    "name": "its name",
    "user_id": "the user",
    "fetch_id": "the fetch",
    "email_id": "the e-mail",
    "who": "the person",
    "why": "the reason",
    "fetches_done": "done",
    "fetches_failed": "failed",
    "fetches_cancelled": "cancelled",
    "slots_used": "by their fate",
    "slots_given_back": "given back",
    "slots_missed": "missed",
    "slots_void": "void",
    "slots_unreported": "unreported",
}
logger = logging.getLogger(__name__)


class ModelTables(SphinxDirective):
    """Shows what the database holds of one model, named as `app_label.Model`."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the tables; constraints and indexes come with the comment that stands above them."""
        model = apps.get_model(self.arguments[0])
        self.env.note_dependency(inspect.getfile(model))
        shown: list[nodes.Node] = [self._columns(model)]
        comments = _comments(inspect.getmodule(model))
        for title, rows in (("Constraint", _constraints(model)), ("Index", _indexes(model))):
            cells = [
                [tables.code(name), tables.code(sql), tables.prose(comments.get(name, ""))]
                for name, sql in rows.items()
            ]
            if cells:
                shown.append(tables.table([title, "SQL", "Why"], cells))
        return shown

    def _columns(self, model: type[models.Model]) -> nodes.table:
        explained = dict(self._explanations())
        rows = []
        for field in model._meta.concrete_fields:
            column = str(field.column)
            here = explained.pop(column, "") or ("" if field.help_text else _everywhere(field))
            if bool(here) == bool(field.help_text) and not field.auto_created:
                how = "twice: here, and by its help_text" if here else "neither here nor by a help_text"
                self._warn(f"{column} of {model._meta.label} is explained {how}")
            meaning = str(field.help_text) or here
            rows.append([tables.code(column), tables.code(_type(field)), _null(field), tables.prose(meaning)])
        for column in explained:
            self._warn(f"{model._meta.label} has no column {column}")
        return tables.table(["Column", "Type", "Null", "Meaning"], rows)

    def _explanations(self) -> Iterator[tuple[str, str]]:
        for line in self.content:
            column, _, meaning = line.partition(": ")
            yield column, meaning.strip()

    def _warn(self, text: str) -> None:
        logger.warning(text, location=self.get_location())


def _everywhere(field: "models.Field[Any, Any]") -> str:
    if field.primary_key and field.default == 1:
        return "always 1"
    return EVERYWHERE.get(str(field.column), "")


def _type(field: "models.Field[Any, Any]") -> str:
    told = field.db_type(connection) or ""
    return SHORT.get(told, told)


def _null(field: "models.Field[Any, Any]") -> list[nodes.Node]:
    return [nodes.Text("yes")] if field.null and not isinstance(field, models.GeneratedField) else []


def _constraints(model: type[models.Model]) -> dict[str, str]:
    editor = connection.schema_editor(collect_sql=True)
    return {each.name: _short(str(each.create_sql(model, editor))) for each in model._meta.constraints}


def _indexes(model: type[models.Model]) -> dict[str, str]:
    editor = connection.schema_editor(collect_sql=True)
    return {each.name: _short(str(each.create_sql(model, editor))) for each in model._meta.indexes}


def _short(statement: str) -> str:
    """Return the statement without its beginning, up to the names of what is created and of the table."""
    unique = "UNIQUE " if statement.startswith("CREATE UNIQUE") else ""
    return unique + re.sub(r'^.*? (?:CONSTRAINT|INDEX) "\w+" (?:ON "\w+" )?', "", statement).replace('"', "")


@cache
def _comments(module: ModuleType) -> dict[str, str]:
    """Return the comment that stands above each constraint and index of the module, by its name."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    comments = {}
    for call in ast.walk(ast.parse(source)):
        names = {each.arg: each.value for each in getattr(call, "keywords", [])}
        if isinstance(call, ast.Call) and isinstance(name := names.get("name"), ast.Constant):
            above = takewhile(lambda line: line.startswith("#"), map(str.strip, reversed(lines[: call.lineno - 1])))
            comments[str(name.value)] = " ".join(reversed([line.removeprefix("#").strip() for line in above]))
    return comments


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("model", ModelTables)
    return {"parallel_read_safe": True}
