"""Weir's tables are taken out by what docs/add-to-your-project.md says, here in one process.

tests/acceptance/host has a project do it by the page, and looks at the schedule, too.
"""

from tests.integration.conftest import StartPython

TAKE_OUT = """
from io import StringIO
from django.core.management import call_command
from django.db import connection

call_command("migrate", verbosity=0)
call_command("showmigrations", no_color=True, stdout=(listed := StringIO()))
for label in listed.getvalue().splitlines():
    if label.startswith("weir_"):
        call_command("migrate", label, "zero", verbosity=0)
with connection.cursor() as cursor:
    cursor.execute("SELECT relname FROM pg_class WHERE relname LIKE 'weir%'")
    relations = cursor.fetchall()
    cursor.execute("SELECT proname FROM pg_proc WHERE proname LIKE 'weir%'")
    functions = cursor.fetchall()
print([relations, functions])
"""


def test_nothing_of_weir_is_left_in_the_database(start_python: StartPython, empty_database: str) -> None:
    """No table, no index and no function."""
    process = start_python(TAKE_OUT, environment={"WEIR_TEST_DATABASE": empty_database})
    assert process.communicate(timeout=120)[0].splitlines()[-1] == "[[], []]"
