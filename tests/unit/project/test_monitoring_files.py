"""What stands in deploy/ for other programs: alarms with their runbooks, and units of systemd."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from project.checkout import CHECKOUT
from tests.cases import for_each
from tests.command_lines import check_line
from tests.unit.project.test_deployment_files import PROCESSES, procfile

ALERTS = CHECKOUT / "deploy" / "prometheus" / "weir-alerts.yml"
UNITS = CHECKOUT / "deploy" / "systemd"
SUPERVISED_S = 30  # what docker-compose.yml gives each process but the mailer


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def unit(name: str) -> dict[str, list[str]]:
    """Return the keys of a unit with all their values."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (UNITS / name).read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def test_the_alarms_go_off_when_they_should_and_not_before() -> None:
    """As Prometheus' own tool sees it."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    tests = ALERTS.with_suffix(".test.yml")
    result = subprocess.run(
        ["promtool", "test", "rules", tests.name], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alarm_is_tested() -> None:
    """With values at which it goes off, and others."""
    tested = yaml.safe_load(ALERTS.with_suffix(".test.yml").read_text())["tests"]
    cases = [case for test in tested for case in test["alert_rule_test"]]
    for rule in rules():
        assert {bool(case.get("exp_alerts")) for case in cases if case["alertname"] == rule["alert"]} == {True, False}


def test_each_alarm_has_its_runbook_and_each_runbook_its_alarm() -> None:
    """A section that says what it means, how to look, what to do and what not."""
    page = (CHECKOUT / "docs" / "runbooks.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert [rule["alert"] for rule in rules()] == list(sections)
    for rule in rules():
        assert {"summary", "description", "runbook"} == rule["annotations"].keys()
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"
        meaning, *_ = sections[rule["alert"]].strip().split("\n\n")
        assert meaning.endswith(".")
        assert re.findall(r"^\*\*(.+?)\*\*", sections[rule["alert"]], re.MULTILINE) == ["Look.", "Do.", "Do not"]


def test_the_commands_of_the_runbooks_exist() -> None:
    """A person who was woken up does not look for the right spelling."""
    page = (CHECKOUT / "docs" / "runbooks.md").read_text()
    lines = re.findall(r"^```sh\n(.+)\n```$", page, re.MULTILINE)
    assert len(lines) == len(rules())
    for line in lines:
        if not line.startswith("curl "):
            check_line(line)
    for line in re.findall(r"`(python manage\.py [^`]+)`", page):
        check_line(re.sub(r"\bID\b", "7", re.sub(r"\bHOST\b", "a.example", line)))


@for_each("process", PROCESSES)
def test_systemd_runs_what_the_procfile_runs(process: str) -> None:
    """With the same name of the worker, which systemd hands over by its instance."""
    [command] = unit(f"weir-{process}@.service")["ExecStart"]
    wanted = re.sub(r"\$\{(HOST|HONCHO_PROCESS_NAME):-[^}]*\}", r"${\1}", procfile()[process])
    wanted = wanted.replace("${PORT:-8000}", "%i").replace("@%h", "@%%h")
    assert command == f"/opt/weir/.venv/bin/{wanted}"
    assert f"weir-{process}@" in (UNITS / "weir.target").read_text()


@for_each("process", PROCESSES)
def test_a_process_starts_when_migrations_are_applied_and_does_not_end_with_the_release(process: str) -> None:
    """Where the release fails, or is run again, what runs goes on; what starts is tried until it may."""
    found = unit(f"weir-{process}@.service")
    assert found["ExecStartPre"] == ["/opt/weir/.venv/bin/python manage.py migrate --check"]
    assert "weir-release.service" in found["Wants"][0].split()
    assert not {"Requires", "Requisite", "BindsTo"} & found.keys()
    assert (found["Restart"], found["StartLimitIntervalSec"]) == (["always"], ["0"])


def test_the_release_runs_what_the_procfile_releases() -> None:
    """It is tried again where it fails: PostgreSQL may start later than its clients."""
    found = unit("weir-release.service")
    commands = [command.removeprefix("/opt/weir/.venv/bin/") for command in found["ExecStart"]]
    assert " && ".join(commands) == procfile()["release"]
    assert (found["Restart"], found["StartLimitIntervalSec"]) == (["on-failure"], ["0"])


@for_each("name", sorted(path.name for path in UNITS.glob("*.service")))
def test_units_have_few_rights_and_enough_time(name: str) -> None:
    """No process is root's, writes to the system, or is killed while it ends what it holds."""
    found = unit(name)
    assert found["User"] == ["weir"]
    assert (found["NoNewPrivileges"], found["ProtectSystem"]) == (["yes"], ["strict"])
    assert "WatchdogSec" not in found
    if name != "weir-release.service":
        [seconds] = found["TimeoutStopSec"]
        assert int(seconds) >= (660 if "mailer" in name else SUPERVISED_S + 1)


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """As its own tool sees it, with the programs of this environment."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for path in UNITS.iterdir():
        text = path.read_text().replace("/opt/weir/.venv/bin", str(Path(sys.executable).parent))
        (tmp_path / path.name).write_text(text)
    names = sorted(str(path) for path in tmp_path.iterdir())
    result = subprocess.run(["systemd-analyze", "verify", *names], capture_output=True, text=True, check=False)
    assert (result.returncode, [line for line in result.stderr.splitlines() if str(tmp_path) in line]) == (0, [])
