"""Operations for migrations that django.contrib.postgres.operations does not have."""

from typing import Any

from django.contrib.postgres.operations import NotInTransactionMixin
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddConstraint
from django.db.migrations.state import ProjectState
from django.db.models import UniqueConstraint


class AddUniqueConstraintConcurrently(NotInTransactionMixin, AddConstraint):
    """Add a UniqueConstraint that has a condition, without blocking other writers of the table.

    PostgreSQL keeps such a constraint as an index, which this operation creates CONCURRENTLY.
    """

    atomic = False
    constraint: UniqueConstraint

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        del from_state
        self._ensure_not_in_transaction(schema_editor)
        model: Any = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            statement = str(self.constraint.create_sql(model, schema_editor))
            before, index, rest = statement.partition("CREATE UNIQUE INDEX ")
            schema_editor.execute(f"{before}{index}CONCURRENTLY {rest}")

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        del from_state
        self._ensure_not_in_transaction(schema_editor)
        model: Any = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            name = schema_editor.quote_name(self.constraint.name)
            schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
