"""Runs tests in parallel processes, each with a copy of the database: `manage.py test --parallel`."""

from typing import Any, cast

from django.db import DEFAULT_DB_ALIAS, connection
from django.test.runner import DiscoverRunner

from weir.postgres import sessions
from weir.postgres.timeline import gate
from weir.testing.servers import without_servers


class Runner(DiscoverRunner):
    """Django's runner. Its `--parallel` copies the database for each process, and Weir works in these copies, too.

    Usually Weir grants nothing in a copy, because other processes may go on with the original. In tests, none does.
    """

    def setup_databases(self, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        made = super().setup_databases(**options)
        if self.parallel > 1 and any(database.alias == DEFAULT_DB_ALIAS for database, *_ in made):
            with without_servers():
                for number in range(1, self.parallel + 1):
                    _begin_in_copy(str(number))
        return made

    def run_checks(self, databases: Any) -> None:  # noqa: ANN401  as above
        """Run the checks, and close the connections: forked processes would all use the same connections of a pool."""
        super().run_checks(databases)
        connection.close()
        cast("Any", connection).close_pool()


def _begin_in_copy(suffix: str) -> None:
    from weir.postgres.timeline.models import KnownTimeline  # noqa: PLC0415  a runner is imported before models are

    copy = sessions.another(connection)
    copy.settings_dict["NAME"] = connection.creation.get_test_db_clone_settings(suffix)["NAME"]
    try:
        with copy.cursor() as cursor:
            cursor.execute(f"DELETE FROM {KnownTimeline._meta.db_table}")  # noqa: S608, SLF001  a name of ours
        gate.begin(copy)
    finally:
        copy.close()
