"""The files that start Weir somewhere: Makefile, Procfile, Compose, Dockerfile, .env.example, constraints; hooks."""

import ast
import json
import os
import re
import runpy
import tomllib
from functools import cache
from io import StringIO
from typing import Any

import pytest
import structlog
import yaml
from django.conf import settings
from django.core.management import CommandError, call_command
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from project import environment
from project.checkout import CHECKOUT
from project.processes import folder
from project.processes.procfile import lines
from tests.cases import for_each
from tests.command_lines import NoSuchCommandError, check_line, check_words, make_targets
from weir.conf.declared import Declared
from weir.workers import heartbeats, schedule
from weir.workers.processes.kinds import BEAT, KINDS

PROCESSES = ["web", "worker", "ticks", "maintenance", "fetcher", "mailer", "beat"]
PASSWORDS = ["POSTGRES_PASSWORD", "POSTGRES_OWNER_PASSWORD", "POSTGRES_APP_PASSWORD", "REDIS_PASSWORD"]
TOP_LEVEL = {
    *(
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Dockerfile",
        "LICENSE",
        "Makefile",
        "Procfile",
        "Procfile.split",
        "README.md",
    ),
    *("constraints.txt", "docker-compose.yml", "install.py", "manage.py", "pyproject.toml", "requirements.lock"),
    *("benchmarks", "demo", "deploy", "docs", "examples", "local", "notifications"),
    *("project", "ratelimit", "tests", "weir", "workers"),
}


@cache
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    return loaded


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def procfile() -> dict[str, str]:
    """Return the processes of a split installation, and the release line: what the deployment files have."""
    return {name: line for name, line in lines().items() if name != "weir"}


def dockerfile() -> list[list[tuple[str, str]]]:
    """Return the stages, each a list of (instruction, what follows it)."""
    text = re.sub(r"^#.*\n", "", (CHECKOUT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stages: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            stages.append([])
        if instruction:
            stages[-1].append((instruction, rest.strip()))
    return stages


def variables_read() -> set[str]:
    """Return the variables that settings read: env.NAME, os.environ.get("NAME"), and all of Weir's by env.of_weir()."""
    names = {*Declared.model_fields}
    for path in ("project/settings.py", "project/embedded/servers.py"):
        for node in ast.walk(ast.parse((CHECKOUT / path).read_text())):
            match node:
                case (
                    ast.Attribute(ast.Name("env"), str(name))
                    | ast.Call(
                        func=ast.Attribute(value=ast.Attribute(ast.Name("os"), "environ")),
                        args=[ast.Constant(str(name)), *_],
                    )
                ):
                    names.add(name)
    return names - {"of_weir"}


def variables_listed() -> dict[str, str]:
    """Return the variables of .env.example, whether commented out or not, with their values."""
    lines = re.findall(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", (CHECKOUT / ".env.example").read_text(), re.MULTILINE)
    assert len(lines) == len(dict(lines))
    return dict(lines)


def constraints() -> list[tuple[str, str]]:
    return re.findall(r"^(.+)==(.+)$", (CHECKOUT / "constraints.txt").read_text(), re.MULTILINE)


def run_settings() -> dict[str, Any]:
    """Execute the settings anew; loggers of this process stay as they were set up."""
    before = structlog.get_config()
    try:
        return runpy.run_path(str(CHECKOUT / "project" / "settings.py"))
    finally:
        structlog.configure(**before)


def load_settings() -> dict[str, Any]:
    loaded = {name: field.default for name, field in Declared.model_fields.items()} | run_settings()
    plain = {name: value for name, value in loaded.items() if name[0].isupper() and name != "LOGGING"}
    return plain | {"log level": loaded["LOGGING"]["root"]["level"]}


def load_logging() -> dict[str, Any]:
    loaded: dict[str, Any] = run_settings()["LOGGING"]
    return loaded


def test_the_top_level_holds_what_the_design_names() -> None:
    """Beside it may be what a project adds: its own apps."""
    assert {name for name in TOP_LEVEL if not (CHECKOUT / name).exists()} == set()


def test_the_makefile_describes_its_targets() -> None:
    """`make help` lists the targets that everything else speaks of."""
    assert make_targets() == [
        "install",
        "demo",
        "up",
        "test",
        "deployments",
        "matrix",
        "lint",
        "hooks",
        "docs",
        "lock",
        "sbom",
        "pictures",
        "faults",
        "bench",
        "clean",
    ]


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile, with the programs of .venv spelt out."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert found
    return [line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


def hooks(stage: str) -> list[dict[str, Any]]:
    """Return the hooks that git runs at this stage."""
    loaded = yaml.safe_load((CHECKOUT / ".pre-commit-config.yaml").read_text())
    assert stage in loaded["default_install_hook_types"]
    return [hook for repo in loaded["repos"] for hook in repo["hooks"] if stage in hook.get("stages", ["pre-commit"])]


def test_the_hooks_check_what_make_lint_checks() -> None:
    """Before a commit the same commands run on the same files as under `make lint`, in the same order."""
    assert [hook["entry"] for hook in hooks("pre-commit")] == recipe("lint")
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in hooks("pre-commit"))


def test_the_hooks_need_no_other_repository() -> None:
    """No hook names a version or a repository of its own: what runs is what constraints.txt pins, also offline."""
    loaded = yaml.safe_load((CHECKOUT / ".pre-commit-config.yaml").read_text())

    assert [(repo["repo"], "rev" in repo) for repo in loaded["repos"]] == [("local", False)]
    assert {hook["language"] for repo in loaded["repos"] for hook in repo["hooks"]} == {"system", "pygrep"}


@for_each(
    ("message", "is_refused"),
    [
        ("x" * 72, False),
        ("x" * 73, True),
        ("é" * 72 + "\n", False),
        ("é" * 73 + "\n", True),
        ("Short\n\n" + "x" * 100, False),
        ("x" * 73 + "\n\nBody", True),
    ],
)
def test_a_commit_subject_has_at_most_72_characters(message: str, is_refused: bool) -> None:
    """The hook looks at the first line alone, and counts characters, not bytes."""
    [hook] = hooks("commit-msg")

    assert hook["args"] == ["--multiline"]  # the pattern sees the whole message, with these flags
    found = re.search(hook["entry"].encode(), message.encode(), re.MULTILINE | re.DOTALL)
    assert bool(found) is is_refused


def test_the_procfile_names_the_processes() -> None:
    """The Procfile has one line for each process, and one for a release; those of Procfile.split do the same."""
    lists = {
        name: dict(line.split(": ", 1) for line in (CHECKOUT / name).read_text().splitlines())
        for name in ("Procfile", "Procfile.split")
    }
    assert list(lists["Procfile"]) == ["release", "web", "worker", "weir"]
    assert list(lists["Procfile.split"]) == PROCESSES
    same = {"web", "worker"}
    assert all(lists["Procfile"][name] == lists["Procfile.split"][name] for name in same)


@pytest.mark.parametrize("process", procfile())
def test_procfile_commands_exist(process: str) -> None:
    """Each command of the Procfile would start: program, command and options exist."""
    check_line(procfile()[process])


def test_every_queue_has_a_worker() -> None:
    """The workers of the Procfile listen on every queue that something is sent to."""
    served = {queue for line in procfile().values() for queue in re.findall(r"--queues (\S+)", line)}

    assert served == {entry.queue for entry in schedule.entries()}  # each has its heartbeat
    assert served == {*schedule.QUEUES, settings.CELERY_TASK_DEFAULT_QUEUE}


def test_compose_file_fits_the_schema() -> None:
    """The Compose file uses known keys with values of the right kind."""
    import jsonschema  # noqa: PLC0415  it takes a second, which each process that looks for tests would spend

    schema = json.loads((CHECKOUT / "tests" / "unit" / "project" / "compose.schema.json").read_text())

    jsonschema.Draft202012Validator(schema).validate(compose())


def test_compose_file_has_no_version_and_all_services() -> None:
    """The obsolete key `version` is gone, and each part of Weir has its service."""
    assert "version" not in compose()
    assert set(services()) == {"postgres", "valkey", "migrate", *PROCESSES}


def test_compose_dependencies_name_services_that_can_fulfil_them() -> None:
    """Who waits for health waits for a service with a health check; what is waited out does end."""
    for service in services().values():
        for name, dependency in service.get("depends_on", {}).items():
            match dependency["condition"]:
                case "service_healthy":
                    assert "healthcheck" in services()[name]
                case "service_completed_successfully":
                    assert services()[name]["restart"] == "no"
                case condition:
                    pytest.fail(f"{name} is waited for until {condition}, which promises nothing")


@for_each("name", PROCESSES)
def test_compose_processes_wait_for_servers_and_migrations(name: str) -> None:
    """No process of Weir starts before its servers answer and the database has its tables."""
    assert {key: value["condition"] for key, value in services()[name]["depends_on"].items()} == {
        "postgres": "service_healthy",
        "valkey": "service_healthy",
        "migrate": "service_completed_successfully",
    }


@for_each("name", services())
def test_compose_commands_exist(name: str) -> None:
    """Each command and health check of the Compose file would start."""
    check_words(services()[name].get("command", []))
    match services()[name].get("healthcheck", {}).get("test", []):
        case ["CMD", *words]:
            check_words(words)
        case ["CMD-SHELL", line]:
            check_line(line)


@for_each(
    ("service", "process"),
    [(name, name) for name in PROCESSES if name != "web"] + [("migrate", "release")],
)
def test_compose_runs_what_the_procfile_runs(service: str, process: str) -> None:
    """Compose and Procfile start the same processes, so that what holds for one holds for the other."""
    words = services()[service]["command"]
    command = words[2] if words[0] == "sh" else " ".join(words)

    assert command == re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", procfile()[process])


def test_compose_checks_that_each_process_turns() -> None:
    """Each container is healthy while its own process goes on; the names of services are those of kinds."""
    commands = {name: " ".join(service.get("command", [])) for name, service in services().items()}
    queues = {name: found[1] for name, line in commands.items() if (found := re.search(r"--queues (\S+)", line))}

    assert sorted(queues.values()) == sorted(schedule.queues())
    assert {name: KINDS.get(queue, "worker") for name, queue in queues.items()} == {name: name for name in queues}
    for name in (*queues, BEAT):
        assert services()[name]["healthcheck"]["test"][-3:] == ["check_heartbeat", "--process", name]


def test_compose_volumes_are_declared_and_where_the_images_keep_data() -> None:
    """What must survive a container lies in a named volume, mounted where the image writes."""
    mounted = {
        name: [volume for volume in service["volumes"] if not volume.endswith(":ro")]
        for name, service in services().items()
        if "volumes" in service
    }

    spilled = mounted.pop("fetcher")
    assert mounted == {"postgres": ["postgres:/var/lib/postgresql"], "valkey": ["valkey:/data"]}
    assert spilled == [f"spilled:{services()['fetcher']['environment']['TMPDIR']}"]  # where it spills large bodies
    assert set(compose()["volumes"]) == {"postgres", "valkey", "spilled"}


def test_compose_refuses_to_start_without_secrets() -> None:
    """Neither a password nor the signing key has a default."""
    text = (CHECKOUT / "docker-compose.yml").read_text()

    for name in (*PASSWORDS, "DJANGO_SECRET_KEY"):
        uses = re.findall(r"\$\{" + name + r"([^}]*)\}", text)
        assert uses
        assert all(use.startswith(":?") for use in uses)


@for_each("name", services())
def test_compose_confines_each_container(name: str) -> None:
    """It writes to tmpfs and volumes only, has no capability, can get none, and cannot use up the host."""
    service = services()[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"][0].startswith("/tmp:")  # noqa: S108  in the container
    assert {"mem_limit", "pids_limit"} <= service.keys()
    assert service.get("user", "weir") in {"weir", "postgres", "valkey"}


def test_compose_has_valkey_refuse_before_the_kernel_kills() -> None:
    """Its limit is at most 60 % of the container's: while Valkey rewrites its file, pages that change are copied."""
    service = services()["valkey"]
    limit = re.search(r"--maxmemory (\d+)mb --maxmemory-policy noeviction", service["command"][-1])
    container = re.fullmatch(r"(\d+)g", service["mem_limit"])

    assert limit
    assert container
    assert int(limit[1]) <= int(container[1]) * 1024 * 0.6


def test_compose_hands_out_each_password_where_it_is_needed() -> None:
    """Only `migrate` knows the owner's, and the processes know no more than what is in their two addresses."""
    known = {name: service["environment"] for name, service in services().items()}

    for name in [*PROCESSES, "migrate"]:
        role = "owner" if name == "migrate" else "app"
        assert known[name]["DATABASE_URL"].startswith(f"postgresql://weir_{role}:${{POSTGRES_{role.upper()}_PASSWORD:?")
        assert not known[name].keys() & {*PASSWORDS}
    assert known["web"]["REDIS_URL"].startswith("redis://:${REDIS_PASSWORD:?")


def test_compose_hands_out_each_variable_where_it_is_read() -> None:
    """`web` has all, as operators type commands there; nobody has a file of them, and secrets have few readers."""
    known = {name: service["environment"].keys() for name, service in services().items()}
    read = variables_listed().keys()
    others = {f"OTEL_{name}" for name in ("EXPORTER_OTLP_HEADERS", "RESOURCE_ATTRIBUTES", "SERVICE_NAME")}
    others |= {"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
    mail = {name for name in read if re.match("EMAIL_|WEIR_MAIL_(?!CONTENT_RETENTION)|DEFAULT_FROM", name)}
    fetches = {name for name in read if re.match("WEIR_FETCH_(?!(?:BODY_)?RETENTION)|WEIR_OBEY", name)}

    assert not [name for name, service in services().items() if "env_file" in service]
    assert known["web"] == (read | others) - {"WEIR_HOME"}
    assert {name for name in known if known[name] & mail} == {"web", "worker", "mailer"}
    assert {name for name in known if known[name] & fetches} == {"web", "worker", "ticks", "maintenance", "fetcher"}
    for name in [*PROCESSES, "migrate"]:
        assert known[name] - {"TMPDIR"} <= known["web"]
        assert known[name] & mail in (set(), mail)
        assert known[name] & fetches in (set(), fetches)
    key = {name: service["environment"].get("DJANGO_SECRET_KEY") for name, service in services().items()}
    assert {name for name, value in key.items() if value} == {"web", "worker", "mailer"}
    assert {name for name in known if "WEIR_METRICS_TOKEN" in known[name]} == {"web"}


def test_compose_names_nothing_twice() -> None:
    """Docker refuses a file that does; the parser of this suite takes the last one."""
    left = [yaml.compose((CHECKOUT / "docker-compose.yml").read_text())]
    while left:
        node = left.pop()
        if isinstance(node, yaml.MappingNode):
            names = [key.value for key, _ in node.value]
            assert len(names) == len(set(names)), names
        if isinstance(node, yaml.CollectionNode):
            left += [part for at in node.value for part in (at if isinstance(at, tuple) else (at,))]


def test_compose_publishes_on_this_host_only() -> None:
    """A port without an address is one of all networks, also behind a firewall of the host (ufw)."""
    published = [port for service in services().values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:${PORT:-8000}:8000"]


def test_compose_servers_are_reached_by_weir_alone() -> None:
    """Their ports are not published, and their network leads nowhere else."""
    assert compose()["networks"]["servers"] == {"internal": True}
    assert {name for name, service in services().items() if "ports" in service} == {"web"}
    for name, service in services().items():
        assert service["networks"] == (["default", "servers"] if name in PROCESSES else ["servers"])


def test_image_commands_exist() -> None:
    """Each command with which the image is built and started would start."""
    for stage in dockerfile():
        for instruction, rest in stage:
            if instruction == "RUN":
                check_line(rest)
            if instruction == "CMD":
                check_words(json.loads(rest))


def test_image_copies_files_that_exist() -> None:
    """What the Dockerfile copies from the checkout is there."""
    copies = [rest.split() for stage in dockerfile() for instruction, rest in stage if instruction == "COPY"]
    sources = [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]

    assert [source for source in sources if not (CHECKOUT / source).exists()] == []


def test_image_is_slim_and_runs_as_nobody_special() -> None:
    """The last stage is slim, installs nothing, and its processes are not root's."""
    stages = dockerfile()
    last = stages[-1]
    instructions = [instruction for instruction, _ in last]

    assert len(stages) > 1
    assert last[0] == ("FROM", "python:3.12-slim")
    assert [rest for name, rest in last if name == "RUN" and re.search(r"\b(apt|apt-get|pip|gcc)\b", rest)] == []
    assert instructions.count("USER") == 1
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", dict(last)["USER"])
    assert not {"RUN", "COPY"} & set(instructions[instructions.index("USER") :])


def test_image_gets_every_package_and_no_secrets() -> None:
    """.dockerignore lets in what runs, and nothing by default."""
    lines = (CHECKOUT / ".dockerignore").read_text().splitlines()
    packages = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")} - {"tests", "benchmarks"}

    assert "*" in lines
    assert {line for line in lines if line.startswith("!")} == {
        f"!{name}" for name in packages | {"local", "manage.py", "pyproject.toml", "requirements.lock"}
    }


def test_env_example_lists_the_variables_that_are_read() -> None:
    """.env.example names every variable that settings read, and no other."""
    assert set(variables_listed()) == variables_read()


def test_env_example_states_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking every # off the lines of .env.example changes no setting."""
    monkeypatch.setattr(environment, "load_dotenv", lambda *_arguments, **_options: False)
    monkeypatch.setattr(folder, "decided", dict)
    for name in variables_listed():
        monkeypatch.delenv(name, raising=False)
    by_default = load_settings()
    for name, value in variables_listed().items():
        monkeypatch.setitem(os.environ, name, value)

    assert load_settings() == by_default


def test_constraints_are_exact_versions_only() -> None:
    """constraints.txt holds name==version lines, each name once: no address of an index or file."""
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()

    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    assert len({canonicalize_name(name) for name, _ in constraints()}) == len(lines)


def test_constraints_cover_what_is_declared() -> None:
    """Each dependency that pyproject.toml declares has an exact version, within the declared bounds."""
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    pinned = {canonicalize_name(name): version for name, version in constraints()}

    for text in sum(declared["optional-dependencies"].values(), declared["dependencies"]):
        requirement = Requirement(text)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), text


def test_a_fresh_heartbeat_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check_heartbeat` passes for a queue that is not silent, whatever the others do."""
    monkeypatch.setattr(heartbeats, "silent_queues", lambda: ["default"])
    output = StringIO()

    call_command("check_heartbeat", "weir.fetch", stdout=output)

    assert "fetch is alive" in output.getvalue()


def test_a_silent_queue_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check_heartbeat` fails for a silent queue and names it."""
    monkeypatch.setattr(heartbeats, "silent_queues", lambda: ["default"])

    with pytest.raises(CommandError, match="queue default"):
        call_command("check_heartbeat", "default")


@for_each(
    "line",
    [
        "python manage.py migrat",
        "python manage.py migrate --no-inputs",
        "celery -A project worker --pool prefrok",
        "celery -A project worker --no-such-option",
        "celery -A projekt beat",
        "celery -A project worker",
        "uvicorn project.asgi:app --no-proxy-headers",
        "uvicorn project.asgi:application",
        "make tests",
        "true && unheard-of",
        "python -c 'a b'",
    ],
)
def test_a_command_that_would_not_start_is_found(line: str) -> None:
    """The checks of this file see a misspelt program, command, option, target or module."""
    with pytest.raises(NoSuchCommandError):
        check_line(line)
