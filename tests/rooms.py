"""Weir's statements by their room and name, as a module of the room would declare them."""

from importlib.resources import files
from typing import Any

from weir.postgres.statements import Statement


def statement(room: str, name: str, *, commits: bool = True, **declared: Any) -> Statement[Any]:
    """Return the statement of this name in the folder `sql/` of the room."""
    module = {"__name__": room, "__package__": room, "__file__": str(files(room) / "module.py"), "Statement": Statement}
    declaration = {"name": name, "commits": commits, **declared}
    return eval("Statement(**declaration)", module | {"declaration": declaration})  # type: ignore[no-any-return]  # noqa: S307
