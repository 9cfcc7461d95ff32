"""The virtual environments of the runs: one for each Python with each Django, installed once."""

import subprocess
from pathlib import Path

from project.checkout import CHECKOUT
from tests.matrix.machine import source
from tests.matrix.packages import Lacking
from tests.matrix.places import ENVIRONMENTS
from tests.matrix.versions import CELERY_OF_PYTHON, INSTALLED_OVER, Versions

MADE_FROM = tuple(CHECKOUT / name for name in ("pyproject.toml", "constraints.txt", "install.py"))


def python_of(run: Versions) -> Path:
    """Return the Python of the run's environment, which is made or brought up to date; raises Lacking."""
    folder = ENVIRONMENTS / f"py{run.python}-dj{run.django}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not python.exists():
        _run(source("python", run.python).provide(), "-m", "venv", "--clear", folder)
    if not stamp.exists() or any(file.stat().st_mtime > stamp.stat().st_mtime for file in MADE_FROM):
        django = INSTALLED_OVER.get(run.django, run.django)
        wanted = [f"Django=={django}.*", f"celery=={CELERY_OF_PYTHON[run.python]}.*", "kombu", "redis"]
        _run(python, CHECKOUT / "install.py", "standalone,embedded,dev", *wanted)
        if django != run.django:
            _run(python, "-m", "pip", "install", "--quiet", "--no-deps", f"Django=={run.django}.*")
        stamp.touch()
    return python


def django_of(python: Path) -> str:
    """Return which Django exactly the environment has."""
    command = [str(python), "-c", "import django; print(django.__version__)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _run(*command: str | Path) -> None:
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        words = " | ".join((result.stderr.strip() or result.stdout.strip()).splitlines()[-3:])
        raise Lacking(f"{' '.join(map(str, command[:3]))} failed: {words}.")
