"""The rights of the role in PostgreSQL: whether it may do with each table what Weir's processes do."""

from typing import NamedTuple

from project.doctor.findings import Verdict, good, wrong
from weir.postgres.statements import Statement


class Rights(NamedTuple):
    """What the role may do; `first` is one of the tables and sequences that are closed to it."""

    role: str
    may_change: bool
    closed: int
    first: str


RIGHTS = Statement("rights", row=Rights, commits=False)


def rights(found: Rights) -> Verdict:
    """Judge whether rows of all tables can be read and written. More rights than that are not a fault."""
    if found.closed:
        return wrong(
            f"The role {found.role} lacks rights on {found.closed} tables or sequences, such as {found.first}: execute "
            "deploy/postgres/roles.sql again, and migrate as weir_owner."
        )
    if found.may_change:
        return good(f"The role {found.role} reads and writes all tables, and may change them.")
    return good(f"The role {found.role} reads and writes all tables, and can change none.")


def ask() -> Verdict:
    """Ask PostgreSQL."""
    return rights(RIGHTS()[0])
