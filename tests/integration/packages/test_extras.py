"""What the library imports is what pip installs with it; what an extra brings is imported where the extra is for."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from project.checkout import CHECKOUT
from tests import wheels
from tests.cases import for_each
from weir import extras

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Where a package of an extra may be imported, and with which others.
PLACES = {
    "weir/api": ["api"],
    "weir/ops": ["ops"],
    "workers/tracing/recorder.py": ["otel"],
    "weir/signatures/keys.py": ["signatures"],
    "workers/mail/providers/sendgrid.py": ["signatures"],
    "workers/fetches/access_tokens/sealing.py": ["oauth"],
    "workers/fetches/fetcher/fetcher.py": ["uvloop"],
}
WITH = {
    "asgiref": "django",
    "kombu": "celery",
    "billiard": "celery",
    "opentelemetry-api": "opentelemetry-sdk",
    "pydantic-core": "pydantic",
}
BLOCKED = """
import sys
class Without:
    def find_spec(name, path=None, target=None):
        if name == {package!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without)
from importlib import util
util.find_spec = lambda name: None if name == {package!r} else True
import {module}
"""


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found - {*sys.stdlib_module_names, "compression", "weir"}  # compression: since Python 3.14


def test_the_library_imports_what_is_installed_with_it() -> None:
    """A module of an extra's has that one's packages beside those of all."""
    of_package = packages_distributions()
    strange: dict[str, set[str]] = {}
    for path in (
        path for room in ("notifications", "ratelimit", "weir", "workers") for path in (CHECKOUT / room).rglob("*.py")
    ):
        name = str(path.relative_to(CHECKOUT))
        allowed = names(PROJECT["dependencies"])
        if name == "weir/testing/plugin.py":  # which pytest loads
            allowed.add(canonicalize_name("pytest"))
        for place, wanted in PLACES.items():
            if name == place or name.startswith(f"{place}/"):
                allowed |= names([text for extra in wanted for text in EXTRAS[extra]])
        for package in imported(path):
            owners = {canonicalize_name(owner) for owner in of_package.get(package, [package])}
            owners |= {canonicalize_name(WITH[owner]) for owner in owners if owner in WITH} | {
                canonicalize_name(package)
            }
            if not owners & allowed and not (package == "backports" and "backports-zstd" in allowed):
                strange.setdefault(name, set()).add(package)
    assert strange == {}


def test_the_project_needs_what_the_extras_for_it_need() -> None:
    """The same bounds stand in both."""
    assert {*EXTRAS["api"], *EXTRAS["ops"], *EXTRAS["uvloop"]} <= {*EXTRAS["standalone"]}


@pytest.mark.parametrize(
    ("module", "package", "extra"), [("weir.api", "ninja", "api"), ("weir.ops", "prometheus_client", "ops")]
)
def test_a_missing_extra_is_named(module: str, package: str, extra: str) -> None:
    """As soon as the app is in INSTALLED_APPS, and not in a traceback of the package's absence somewhere below."""
    program = BLOCKED.format(module=module, package=package)
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    sentence = f'{module} needs the package {package}, which is not installed: pip install "django-weir[{extra}]"'
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {sentence}"


def test_what_is_there_is_not_complained_of() -> None:
    """Nothing is imported for that."""
    extras.need("ninja", extra="api", user="weir.api")


def test_a_fetcher_runs_without_uvloop() -> None:
    """On asyncio's own loop."""
    program = (
        "import sys; sys.modules['uvloop'] = None\n"
        "import django; django.setup()\n"
        "from weir.workers.fetches.fetcher import fetcher\n"
        "print((fetcher.uvloop or fetcher.asyncio).new_event_loop().__class__.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("asyncio."), done.stderr


@for_each(
    ("package", "version"),
    [("django", "5.2.19"), ("django", "6.0.7"), ("django", "6.1.2")]
    + [("celery", v) for v in ("5.5.3", "5.6.3", "5.7.0")],
)
def test_the_bounds_let_current_projects_in(package: str, version: str) -> None:
    """Those that were tried, and no further."""
    [bound] = [found.specifier for found in map(Requirement, PROJECT["dependencies"]) if found.name == package]
    assert version in bound
    assert {"django": "6.2", "celery": "6.0"}[package] not in bound


def test_who_is_told_to_install_weir_is_told_its_name() -> None:
    """On PyPI, weir is a stranger's package."""
    told: dict[str, list[str]] = {}
    for name in wheels.tracked():
        path = CHECKOUT / name
        if not path.is_symlink() and path != Path(__file__):
            text = path.read_text(errors="replace")
            told[name] = re.findall(r"([\w-]*\bweir)\[[a-z{]", text)
            told[name] += re.findall(r"pip install (?:-[\w-]+ )*[\"']?([\w-]*\bweir)\b", text)
    assert {name: names for name, names in told.items() if {*names} - {"django-weir"}} == {}
    assert told["docs/add-to-your-project.md"]
