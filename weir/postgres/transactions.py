"""PostgreSQL's transaction ids and snapshots as columns.

They have 64 bits, and never wrap around. They are meaningless in another cluster, although rows that `pg_restore`
copies there keep them.
"""

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class TransactionIdField(models.Field):  # type: ignore[type-arg]  # Django's cannot be subscripted
    """The id of a transaction (`xid8`), as text."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:  # noqa: ARG002  Django's signature
        """Return PostgreSQL's type."""
        return "xid8"


class SnapshotField(models.Field):  # type: ignore[type-arg]  # Django's cannot be subscripted
    """Which transactions had ended at a moment (`pg_snapshot`), as text."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:  # noqa: ARG002  Django's signature
        """Return PostgreSQL's type."""
        return "pg_snapshot"


class CurrentTransactionId(models.Func):
    """The id of the transaction that executes the statement."""

    function = "pg_current_xact_id"
    template = "%(function)s()"
    arity = 0
    output_field = TransactionIdField()
