"""`install.py`: uv hears what pip's configuration says, and pip installs where uv cannot."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import install
from install import NotWithUv, configuration, told
from tests.cases import for_each

# Stands in for a program: notes its arguments and the variables of uv, and ends as it is told.
PROGRAM = """
import json, os, sys
file, status, says, *arguments = sys.argv[1:]
told = {name: value for name, value in os.environ.items() if name.startswith("UV_")}
with open(file, "a") as notes:
    notes.write(json.dumps([arguments, told]) + "\\n")
print(says)
sys.exit(int(status) if "install" in arguments else 0)
"""


class Programs:
    """Stands in for pip and uv; `ran` lists how they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._notes = folder / "notes"
        self._monkeypatch = monkeypatch
        for name in [name for name in os.environ if name.startswith("UV_")]:
            monkeypatch.delenv(name)

    def set(self, name: str, *, status: int, says: str = "", first: tuple[str, ...] = ()) -> None:
        command = (sys.executable, "-c", PROGRAM, str(self._notes), str(status), says, name, *first)
        self._monkeypatch.setattr(install, name, command)

    def ran(self) -> list[tuple[list[str], dict[str, str]]]:
        return [(arguments, env) for arguments, env in map(json.loads, self._notes.read_text().splitlines())]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Stand-ins: pip has an index of its own, and works; uv is there, and works."""
    found = Programs(tmp_path, monkeypatch)
    found.set("PIP", status=0, says="global.index-url='https://pypi.example/simple'")
    found.set("UV", status=0, first=("install",))
    monkeypatch.setattr(install, "find_spec", lambda _name: object())
    return found


def test_the_value_that_counts_is_the_one_pip_uses() -> None:
    """Variables win over [install], and that over [global]; lists may stand on lines of their own."""
    listing = """\
:env:.find-links='/wheels'
global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'
global.index-url='https://global.example/simple'
global.find-links="/it's here"
install.index-url='https://install.example/simple'
freeze.index-url='https://freeze.example/simple'
"""
    assert configuration(listing) == {
        "find-links": "/wheels",
        "extra-index-url": "\nhttps://a.example/simple\nhttps://b.example/simple",
        "index-url": "https://install.example/simple",
    }


def test_uv_is_told_what_pip_is_told() -> None:
    """Each option goes into uv's own variable, its lists with uv's own separators."""
    assert told(
        {
            "index-url": "https://pypi.example/simple",
            "extra-index-url": "\nhttps://a.example/simple\nhttps://b.example/simple",
            "find-links": "/wheels https://c.example/",
            "trusted-host": "a.example\nb.example",
            "cert": "/etc/ca.pem",
            "timeout": "60",
            "disable-pip-version-check": "1",
        }
    ) == {
        "UV_DEFAULT_INDEX": "https://pypi.example/simple",
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,https://c.example/",
        "UV_INSECURE_HOST": "a.example b.example",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_HTTP_TIMEOUT": "60",
    }


def test_without_a_configuration_uv_is_told_nothing() -> None:
    """Empty options are unset ones."""
    assert told(configuration("")) == {}
    assert told({"index-url": " "}) == {}


@for_each("option", ["no-binary", "only-binary", "require-hashes"])
def test_what_limits_the_choice_is_left_to_pip(option: str) -> None:
    """An option that uv is not told, and that says what may be installed, is a reason to use pip."""
    with pytest.raises(NotWithUv, match=option):
        told({option: "x"})


def test_uv_installs_with_pips_index(programs: Programs, capfd: pytest.CaptureFixture[str]) -> None:
    """It gets the extras, the constraints and pip's index, and is brief where no terminal is; pip installs nothing."""
    assert install.main("embedded,dev") == 0

    [(listed, _), (installed, env)] = programs.ran()
    assert listed == ["PIP", "config", "list"]
    assert installed == [
        "UV",
        "install",
        "--quiet",
        "-c",
        "constraints.txt",
        *install.OF_YOUR_APPS,
        "-e",
        ".[embedded,dev]",
    ]
    assert env == {"UV_DEFAULT_INDEX": "https://pypi.example/simple"}
    assert f"Installing Weir [embedded,dev] into {Path(sys.prefix).name} with uv ..." in capfd.readouterr().out


def test_uv_keeps_to_pips_constraints_too(programs: Programs) -> None:
    """Each file that pip's configuration names is one of uv's, beside Weir's own: both hold."""
    programs.set("PIP", status=0, says="global.constraint='/etc/pip/constraints.txt\\nmore.txt'")

    assert install.main("embedded") == 0

    [_, (installed, _)] = programs.ran()
    assert installed[3:9] == ["-c", "/etc/pip/constraints.txt", "-c", "more.txt", "-c", "constraints.txt"]


def test_a_requirement_holds_instead_of_the_constraint(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The constraints are copied without the line of that package; packages with longer names keep theirs."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert install.main("embedded", "django==6.0.*") == 0

    copy = tmp_path / "constraints.txt"
    assert programs.ran()[-1][0][3:] == ["-c", str(copy), *install.OF_YOUR_APPS, "-e", ".[embedded]", "django==6.0.*"]
    lines = (install.CHECKOUT / "constraints.txt").read_text().splitlines()
    [left_out] = set(lines) - set(copy.read_text().splitlines())
    assert left_out.startswith("Django==")


def test_a_users_own_setting_of_uv_stays(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has told uv about an index has told it more than pip's configuration knows."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine.example/simple")

    install.main("embedded")

    assert programs.ran()[-1][1] == {"UV_DEFAULT_INDEX": "https://mine.example/simple"}


def test_pip_installs_where_uv_fails(programs: Programs, capfd: pytest.CaptureFixture[str]) -> None:
    """One sentence says so, and pip gets the same extras and constraints."""
    programs.set("UV", status=2, first=("install",))

    assert install.main("embedded") == 0

    assert programs.ran()[-1][0] == [
        "PIP",
        "install",
        "--quiet",
        "-c",
        "constraints.txt",
        *install.OF_YOUR_APPS,
        "-e",
        ".[embedded]",
    ]
    assert capfd.readouterr().out.count("uv is not used, as uv failed: pip installs the same") == 1


def test_pip_installs_where_there_is_no_uv(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where pip finds no uv that it could install, uv is not called; pip's own failure is the exit status."""
    monkeypatch.setattr(install, "find_spec", lambda _name: None)
    programs.set("PIP", status=3)

    assert install.main("embedded") == 3

    asked, fetched, installed = [arguments for arguments, _ in programs.ran()]
    assert asked == ["PIP", "config", "list"]
    assert fetched[-1] == "uv"
    assert installed[-1] == ".[embedded]"
    assert "uv is not used, as pip install failed" in capfd.readouterr().out


@pytest.mark.parametrize("has_venv", [True, False])
def test_what_to_install_is_told_only_where_it_is_missing(has_venv: bool, tmp_path: Path) -> None:
    """Not where something else keeps `make install` from making .venv, here a file of that name."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "install.py", "local/requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(install.CHECKOUT / name, tmp_path / name)
    (tmp_path / ".venv").touch()
    (tmp_path / "without").mkdir()
    (tmp_path / "without/ensurepip.py").write_text("raise ImportError")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}  # of `make test`
    made = subprocess.run(
        ["make", "install", f"PYTHON={sys.executable}"],
        cwd=tmp_path,
        env=environment | ({} if has_venv else {"PYTHONPATH": str(tmp_path / "without")}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode
    assert ("python3-venv" in made.stderr) is not has_venv
    assert (".venv: the lines above say why" in made.stderr) is has_venv
