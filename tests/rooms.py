"""Weir's statements by their room and name, as a module of the room would declare them."""

from importlib.resources import files
from typing import Any, Final

from weir.postgres.statements import Statement
from weir.workers.effects.names import NAMES as EFFECTS
from weir.workers.mail.phases import NAMES

LEDGER: Final = "weir.workers.ledger"
NAMED: Final = {
    "weir.workers.mail": NAMES,
    "weir.workers.effects": EFFECTS,
}  # the rooms whose tables the statements of the ledger are for


def statement(room: str, name: str, *, commits: bool = True, **declared: Any) -> Statement[Any]:
    """Return the statement of this name in the folder `sql/` of the room, or of the ledger, for the room's table."""
    if room in NAMED and not (files(room) / "sql" / f"{name}.sql").is_file():
        return statement(LEDGER, name, commits=commits, **declared).with_names(NAMED[room]._asdict())
    module = {"__name__": room, "__package__": room, "__file__": str(files(room) / "module.py"), "Statement": Statement}
    declaration = {"name": name, "commits": commits, **declared}
    return eval("Statement(**declaration)", module | {"declaration": declaration})  # type: ignore[no-any-return]  # noqa: S307
