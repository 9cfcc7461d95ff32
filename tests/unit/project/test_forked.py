"""The forks that tests start are what they would be if each had been started by itself."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import psutil
import pytest

from tests.forked import MOST_OF_WEIR, Forked

SHOW = "import json, os, sys; print(json.dumps([sys.argv, os.environ['COLOUR'], os.getpid(), os.getsid(0), input()]))"


def test_a_fork_has_its_own_arguments_environment_and_input() -> None:
    """And a process id and a session that are its own, where that is asked for."""
    fork = Forked("-c", SHOW, "a", "b c", environment={"COLOUR": "green"}, start_new_session=True)
    said, _ = fork.communicate("hello\n")
    assert said == f'[["-c", "a", "b c"], "green", {fork.pid}, {fork.pid}, "hello"]\n'
    assert fork.returncode == fork.poll() == 0


def test_nothing_of_one_is_left_to_the_next() -> None:
    """Neither settings nor modules of ours, nor the variables of the process that is forked."""
    first = "import os, project.settings; os.environ['LEFT'] = '1'; print('project' in __import__('sys').modules)"
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings"}
    assert Forked("-c", first, environment=variables).communicate()[0] == "True\n"
    second = "import os, sys; print(dict(os.environ), [name for name in sys.modules if name.startswith('project')])"
    assert Forked("-c", second, environment={"A": "B"}).communicate()[0] == "{'A': 'B'} []\n"


def test_with_the_projects_settings_it_has_imported_what_needs_none(tmp_path: Path) -> None:
    """Weir of the checkout alone, with no settings read, and no variable of another process."""
    program = """
import os, sys
from django.apps import apps
from django.conf import settings
print(*(name in sys.modules for name in ("weir.ratelimit.pacing", "project.settings", "project.celery")))
print(settings.configured, apps.ready, os.environ.get("COLOUR"), os.environ.get("HOME"))
"""
    settings = {"DJANGO_SETTINGS_MODULE": "project.settings", "COLOUR": "green"}
    said = Forked("-c", program, environment=settings).communicate()[0]
    assert said == "True False False\nFalse False green None\n"
    (tmp_path / "weir").mkdir()
    (tmp_path / "weir" / "__init__.py").write_text("COLOUR = 'blue'")
    of_another = {**settings, "PYTHONPATH": str(tmp_path)}
    assert Forked("-c", "import weir; print(weir.COLOUR)", environment=of_another).communicate()[0] == "blue\n"
    in_its_folder = Forked(
        "-c", "import weir; print(weir.COLOUR)", environment={**settings, "PYTHONPATH": "."}, folder=tmp_path
    )
    assert in_its_folder.communicate()[0] == "blue\n"


def test_it_begins_in_its_folder_and_imports_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "colours.py").write_text("import os\nprint('red', os.getcwd())")
    fork = Forked("-m", "colours", environment={"PYTHONPATH": str(tmp_path)}, folder=tmp_path / "..")
    assert fork.communicate()[0] == f"red {tmp_path.parent}\n"


def test_a_module_writes_to_the_file_that_is_named(tmp_path: Path) -> None:
    """Errors too."""
    with (tmp_path / "log").open("wb") as log:
        fork = Forked("-m", "json.tool", "--nonsense", environment=os.environ, output=log)
    assert fork.wait(20) == 2
    assert "unrecognized arguments: --nonsense" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(("program", "status"), [("raise SystemExit(3)", 3), ("1 / 0", 1), ("", 0)])
def test_how_it_ended_is_told(program: str, status: int, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        assert Forked("-c", program, environment={}, output=log).wait(20) == status


def test_it_ends_as_python_does() -> None:
    """It waits for its threads, calls what is registered, in this order, and writes what is buffered; 1 for a text."""
    program = """
import atexit, sys, threading, time
atexit.register(print, "registered")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
print("main")
sys.exit("It failed.")
"""
    with TemporaryFile() as errors:
        fork = Forked("-c", program, environment={}, errors=errors)
        assert fork.communicate()[0].split() == ["main", "thread", "registered"]
        errors.seek(0)
        assert (fork.wait(), errors.read()) == (1, b"It failed.\n")


def test_it_can_be_waited_for_stopped_and_killed() -> None:
    fork = Forked("-c", "import time; print('sleeps', flush=True); time.sleep(60)", environment={})
    assert fork.stdout.readline() == "sleeps\n"
    assert fork.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.01)
    fork.terminate()
    assert fork.wait(20) == -signal.SIGTERM
    fork.kill()  # does nothing: another process may have its id


def test_it_ends_with_the_one_that_started_it() -> None:
    """However that ends."""
    program = """
import os, signal
from tests.forked import MOST_OF_WEIR, Forked
print(Forked("-c", "import time; time.sleep(60)", environment=os.environ).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    starter = Forked("-c", program, environment=os.environ)
    fork = int(starter.communicate()[0])
    with suppress(psutil.NoSuchProcess):
        psutil.Process(fork).wait(20)


STARTED = "import os, sys; print('project.celery' in sys.modules, os.environ.get('COLOUR'))"


def test_those_of_weir_find_it_imported_in_their_environment() -> None:
    """By one process for each environment, which ends after the last of them."""
    red, blue = ({**os.environ, "COLOUR": colour} for colour in ("red", "blue"))
    said = [Forked("-c", STARTED, environment=of, of_weir=True).communicate()[0].split() for of in (red, blue, red)]
    assert said == [["True", "red"], ["True", "blue"], ["True", "red"]]
    sleeps = Forked("-c", "import time; print(flush=True); time.sleep(60)", environment=red, of_weir=True)
    assert sleeps.stdout.readline() == "\n"
    for number in range(MOST_OF_WEIR):  # which take its place
        Forked("-c", "", environment={**red, "NUMBER": str(number)}, of_weir=True).wait(20)
    assert sleeps.poll() is None
    imported_it = psutil.Process(sleeps.pid).parents()[1]
    sleeps.terminate()
    assert sleeps.wait(20) == -signal.SIGTERM
    imported_it.wait(20)


def test_those_of_two_tests_have_one_environment() -> None:
    """What imports ours stays for the next test, though pytest names each in a variable."""
    of_tests = [{**os.environ, "PYTEST_CURRENT_TEST": f"test {number}"} for number in range(2)]
    program = "import os, psutil; print(psutil.Process().parents()[1].pid, os.environ.get('PYTEST_CURRENT_TEST'))"
    first, second = (Forked("-c", program, environment=of, of_weir=True).communicate()[0] for of in of_tests)
    assert first == second
    assert first.endswith(" None\n")


def test_one_of_weir_that_cannot_import_it_says_why() -> None:
    """As it would by itself."""
    program = "from django.conf import settings; settings.DEBUG"
    wrong = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.no_settings"}
    said = Forked("-c", f"try:\n  {program}\nexcept Exception as e: print(e)", environment=wrong, of_weir=True)
    assert said.communicate()[0] == "No module named 'project.no_settings'\n"
