"""What runs the tests of apps that use Weir: `manage.py test`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from django.db import DEFAULT_DB_ALIAS, connection
from django.test.runner import DiscoverRunner

import weir
from weir.postgres import sessions
from weir.postgres.timeline import gate


class Runner(DiscoverRunner):
    """Django's, whose `--parallel` copies the database for each process.

    Weir grants nothing in a copy, as others may go on with what it is a copy of: here nobody does.
    """

    def build_suite(self, test_labels: Sequence[str] | None = None, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        """Without a label, look for tests wherever there may be some."""
        return super().build_suite(test_labels or [*_packages(), *_modules(self.pattern or "test*.py")], **options)

    def setup_databases(self, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        made = super().setup_databases(**options)
        if self.parallel > 1 and any(database.alias == DEFAULT_DB_ALIAS for database, *_ in made):
            for number in range(1, self.parallel + 1):
                _begin_in_copy(str(number))
        return made

    def run_checks(self, databases: Any) -> None:  # noqa: ANN401  as above
        """Leave no connection open: processes that are forked would all speak on those of a pool."""
        super().run_checks(databases)
        connection.close()
        cast("Any", connection).close_pool()


def _packages() -> list[str]:
    """Return the packages in the current folder, but for Weir's rooms: those are imported as `weir.ROOM` alone."""
    rooms = {path.name for path in Path(weir.__file__).parent.iterdir() if path.is_symlink()}
    return sorted({path.parent.name for path in Path().glob("*/__init__.py")} - rooms)


def _modules(pattern: str) -> list[str]:
    """Return the modules with tests in the current folder."""
    return sorted(path.stem for path in Path().glob(pattern))


def _begin_in_copy(suffix: str) -> None:
    copy = sessions.another(connection)
    copy.settings_dict["NAME"] = connection.creation.get_test_db_clone_settings(suffix)["NAME"]
    try:
        with copy.cursor() as cursor:
            cursor.execute("DELETE FROM timeline_knowntimeline")
        gate.begin(copy)
    finally:
        copy.close()
