"""`make sbom`: what the image consists of, and under which licences."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from project.checkout import CHECKOUT
from tests.cases import for_each
from tests.locked import locked, needed

# Of which nothing is asked but to name the authors.
FREE = re.compile(
    r"(The )?(MIT|Apache|BSD|ISC|PSF|Python Software Foundation)\b[\w .-]*( (AND|OR) (MIT|Apache|BSD|ISC|PSF)[\w.-]*)*"
)
# Of others, why they may be used.
REASONS = {
    "psycopg": "LGPL: imported as it is, and anybody can replace it",
    "psycopg-binary": "as psycopg",
    "publicsuffixlist": "MPL, of each file by itself: it and its list are imported as they are",
    "python-crontab": "LGPL, as psycopg; django-celery-beat needs it",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `make sbom` wrote to."""
    folder = tmp_path_factory.mktemp("sbom")
    command = ["make", "--assume-old=install", "sbom", f"BUILD={folder}"]
    result = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


def licences(folder: Path) -> dict[str, str]:
    """Return the table, by canonical names."""
    lines = (folder / "licences.md").read_text().splitlines()
    assert lines[0].split("|")[1].strip() == "Name"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {canonicalize_name(name): licence for name, _, licence, _ in rows}


def unexplained(found: dict[str, str]) -> dict[str, str]:
    """Return the licences that ask for something, or are unknown, and for which no reason is given."""
    return {
        name: licence
        for name, licence in found.items()
        if name not in REASONS and not all(FREE.fullmatch(part) for part in licence.split("; "))
    }


def test_the_bill_of_materials_fits_its_schema(written: Path) -> None:
    """That of CycloneDX, which the library brings along."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415  it takes a second, as jsonschema does

    text = (written / "sbom.cdx.json").read_text()

    assert json.loads(text)["specVersion"] == "1.6"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_it_has_each_installed_package(written: Path) -> None:
    """It is requirements.lock, with hashes."""
    loaded: dict[str, Any] = json.loads((written / "sbom.cdx.json").read_text())
    found: dict[str, Any] = {canonicalize_name(one["name"]): one for one in loaded["components"]}

    assert loaded["metadata"]["component"]["name"] == "django-weir"
    assert found.keys() == locked().keys()
    assert all(one["externalReferences"][0]["hashes"] for one in found.values())


@pytest.mark.skipif(Path(sys.prefix) != CHECKOUT / ".venv", reason="the matrix has other versions")
def test_what_is_locked_is_what_is_installed_and_tested() -> None:
    """Of all that Weir needs here."""
    assert {name: locked()[name].specifier for name in needed()} == {name: f"=={version(name)}" for name in needed()}


def test_each_licence_is_known_and_free(written: Path) -> None:
    """None is missing or asks for more than a name, but for those that are listed with a reason."""
    found = licences(written)

    assert needed() <= found.keys()
    assert unexplained(found) == {}
    others = {f"not {name}": found[name] for name in REASONS}
    assert unexplained(others) == others  # each reason is needed


@for_each("licence", ["UNKNOWN", "AGPL-3.0", "GNU Affero General Public License v3", "MIT; GPLv3"])
def test_other_licences_are_found(licence: str) -> None:
    """The check above sees them."""
    assert unexplained({"some-package": licence}) == {"some-package": licence}
