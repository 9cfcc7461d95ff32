"""The role's rights in PostgreSQL: whether it may do with each table what Weir's processes do."""

from typing import NamedTuple

from project.doctor.findings import Verdict, good, wrong
from weir.postgres.statements import Statement


class Rights(NamedTuple):
    """The role's rights: `closed` is how many tables, sequences and views it cannot fully use, `first` one of them."""

    role: str
    may_change: bool
    closed: int
    first: str


RIGHTS = Statement("rights", row=Rights, commits=False)


def rights(found: Rights) -> Verdict:
    """Judge whether the role can read and write the rows of all tables. Further rights are not a fault."""
    if found.closed:
        return wrong(
            f"The role {found.role} lacks rights on {found.closed} tables or sequences, such as {found.first}: execute "
            "deploy/postgres/roles.sql again, and migrate as weir_owner."
        )
    if found.may_change:
        return good(f"The role {found.role} reads and writes all tables, and may change them.")
    return good(f"The role {found.role} reads and writes all tables, and can change none.")


def ask() -> Verdict:
    """Ask PostgreSQL for the role's rights, and judge them."""
    return rights(RIGHTS()[0])
