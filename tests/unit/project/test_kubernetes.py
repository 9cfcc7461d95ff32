"""The manifests of deploy/kubernetes, as `kubectl kustomize` makes them of the example."""

import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from project.checkout import CHECKOUT
from project.environment.variables import Variables
from project.processes.procfile import lines
from tests.cases import for_each
from tests.command_lines import check_words
from weir.workers import schedule

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="this machine has no kubectl")
VERSIONS = ["1.30", "1.34"]  # of Kubernetes
PROCESSES = ["web", "worker", "ticks", "maintenance", "fetcher", "mailer", "beat"]
# What KEDA's own definition (keda.sh/v1alpha1) says of the fields that are used here. No package has it.
SCALED_OBJECT = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "spec": {
            "type": "object",
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
            "properties": {
                "scaleTargetRef": {
                    "type": "object",
                    "required": ["name"],
                    "additionalProperties": False,
                    "properties": {"apiVersion": {}, "kind": {}, "name": {"type": "string"}},
                },
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "pollingInterval": {"type": "integer", "minimum": 1},
                "cooldownPeriod": {"type": "integer", "minimum": 0},
                "fallback": {
                    "type": "object",
                    "required": ["failureThreshold", "replicas"],
                    "additionalProperties": False,
                    "properties": {"failureThreshold": {"type": "integer"}, "replicas": {"type": "integer"}},
                },
                "advanced": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"horizontalPodAutoscalerConfig": {"type": "object", "required": ["behavior"]}},
                },
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["type", "metadata"],
                        "additionalProperties": False,
                        "properties": {
                            "type": {"const": "prometheus"},
                            "metricType": {"enum": ["AverageValue", "Value"]},
                            "metadata": {
                                "type": "object",
                                "required": ["serverAddress", "query", "threshold"],
                                "additionalProperties": {"type": "string"},
                                "propertyNames": {"enum": ["serverAddress", "query", "threshold", "ignoreNullValues"]},
                            },
                        },
                    },
                },
            },
        },
    },
}


@cache
def made() -> list[dict[str, Any]]:
    """Return the resources of the example."""
    command = ["kubectl", "kustomize", str(CHECKOUT / "deploy" / "kubernetes" / "overlays" / "example")]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stderr == ""
    return list(yaml.safe_load_all(result.stdout))


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a kind, by name."""
    return {resource["metadata"]["name"]: resource for resource in made() if resource["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    """Return the pods' specifications, by what runs in them."""
    running = of_kind("Deployment") | of_kind("Job")
    return {name.removeprefix("weir-"): found["spec"]["template"]["spec"] for name, found in running.items()}


def variables() -> dict[str, str]:
    """Return the variables that are no secrets."""
    [found] = of_kind("ConfigMap").values()
    data: dict[str, str] = found["data"]
    return data


@pytest.mark.parametrize("version", VERSIONS)
def test_each_resource_fits_its_schema(version: str) -> None:
    """By Kubernetes' own schemas, where an unknown field is an error."""
    import kubernetes_validate  # noqa: PLC0415  it takes a second, which each process that looks for tests would spend

    for resource in made():
        if resource["kind"] != "ScaledObject":
            kubernetes_validate.validate(resource, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    """The check above sees it."""
    import kubernetes_validate  # noqa: PLC0415  as above

    deployment = of_kind("Deployment")["weir-web"]
    misspelt = deployment | {"spec": deployment["spec"] | {"replica": 2}}

    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(misspelt, VERSIONS[-1], strict=True)


def test_there_is_each_process_of_the_procfile() -> None:
    """With the same command, but for the address that the web process listens on."""
    known = lines()
    assert set(pods()) == {*PROCESSES, "migrate"}

    for name in PROCESSES:
        expected = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", known[name]).replace("127.0.0.1", "0.0.0.0")  # noqa: S104
        assert pods()[name]["containers"][0]["args"] == shlex.split(expected)
    assert pods()["migrate"]["containers"][0]["args"] == ["sh", "-c", known["release"]]


@for_each("name", [*PROCESSES, "migrate"])
def test_each_pod_is_confined(name: str) -> None:
    """No root, no capability, nothing to write to but memory, no token; by the rules that are called restricted."""
    pod = pods()[name]
    user = re.search(r"^USER (\d+):(\d+)$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    assert user

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert [pod["securityContext"][key] for key in ("runAsUser", "runAsGroup")] == [int(part) for part in user.groups()]
    assert pod["automountServiceAccountToken"] is False
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} == {"emptyDir"}
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["image"] == "registry.example.com/weir:0.1.0"
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert "memory" in container["resources"]["limits"]


def test_fetchers_spill_large_bodies_to_the_disk_of_the_node() -> None:
    """All other files of all pods are in memory, of which a large body would take what the fetcher needs."""
    of_disk = {
        (name, volume["name"])
        for name, pod in pods().items()
        for volume in pod["volumes"]
        if volume["emptyDir"].get("medium") != "Memory"
    }
    assert of_disk == {("fetcher", "spilled")}
    [container] = pods()["fetcher"]["containers"]
    assert {"name": "spilled", "mountPath": _variables_of(container)["TMPDIR"]} in container["volumeMounts"]
    assert all("sizeLimit" in volume["emptyDir"] for pod in pods().values() for volume in pod["volumes"])


def _variables_of(container: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


def test_secrets_are_named_and_not_contained() -> None:
    """The owner's address is known to `migrate` alone, which has a session of its own; and nothing here is a secret."""
    assert of_kind("Secret") == {}
    assert not {"DATABASE_URL", "REDIS_URL", "DJANGO_SECRET_KEY"} & variables().keys()
    for name, pod in pods().items():
        [container] = pod["containers"]
        assert {"secretRef": {"name": "weir"}} in container["envFrom"]
        owner = {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "weir-owner", "key": "DATABASE_URL"}}}
        pooling = {"name": "WEIR_TRANSACTION_POOLING", "value": "false"}  # whatever the processes have
        if name != "fetcher":
            assert container.get("env", []) == ([owner, pooling] if name == "migrate" else [])


def test_a_fetcher_has_no_secret_but_the_servers() -> None:
    """It reads what strangers send. `env` is stronger than `envFrom`; without relays there are no routes to them."""
    secret = {name for name, field in Variables.model_fields.items() if isinstance(field.default, SecretStr)}
    [container] = pods()["fetcher"]["containers"]
    emptied = (secret - {"DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL"}) | {"WEIR_MAIL_RELAYS", "WEIR_MAIL_ROUTES"}
    assert _variables_of(container) == dict.fromkeys(emptied, "") | {"TMPDIR": "/var/tmp"}  # noqa: S108  in the pod


def test_variables_are_those_that_are_read() -> None:
    """Each is one of Weir's, and liveness files lie where there is a folder for them."""
    assert variables().keys() <= set(Variables.model_fields)
    for pod in pods().values():
        mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        assert variables()["WEIR_LIVENESS_DIR"] in mounts


@for_each("name", PROCESSES)
def test_each_process_is_probed_and_waits_for_migrations(name: str) -> None:
    """The web's by HTTP, with a host that is allowed; the others by the file that each touches."""
    [container] = pods()[name]["containers"]
    [waits] = pods()[name]["initContainers"]

    check_words(waits["args"])
    assert waits["args"][-2:] == ["migrate", "--check"]
    if name == "web":
        paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
        assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
        hosts = {header["value"] for header in container["readinessProbe"]["httpGet"]["httpHeaders"]}
        assert hosts <= set(variables()["DJANGO_ALLOWED_HOSTS"].split(","))
    else:
        command = container["livenessProbe"]["exec"]["command"]
        assert command == ["sh", "-c", f"find {variables()['WEIR_LIVENESS_DIR']} -type f -mmin -1 | grep -q ."]
        assert container["startupProbe"]["exec"]["command"] == command


def test_ends_take_as_long_as_under_compose() -> None:
    """A mailer waits for a mail server that hangs; so does whoever ends it."""
    services = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
    seconds = {"30s": 30, "11m": 660}

    for name in PROCESSES:
        assert pods()[name]["terminationGracePeriodSeconds"] == seconds[services[name]["stop_grace_period"]]


def test_what_runs_twice_is_not_evicted_at_once() -> None:
    """Web, fetchers and beat."""
    budgets = {name.removeprefix("weir-"): found["spec"] for name, found in of_kind("PodDisruptionBudget").items()}

    assert set(budgets) == {"web", "fetcher", "beat"}
    for name, budget in budgets.items():
        assert budget["maxUnavailable"] == 1
        deployment = of_kind("Deployment")[f"weir-{name}"]
        assert budget["selector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]


def test_network_policies_are_about_weirs_pods_alone() -> None:
    """Others in the namespace keep what they have."""
    for policy in of_kind("NetworkPolicy").values():
        assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "weir"


def test_pods_reach_servers_that_are_pods() -> None:
    """Some networks never take a pod for a block of addresses, so that pods are named besides."""
    allowed = [peer for rule in of_kind("NetworkPolicy")["weir"]["spec"]["egress"] for peer in rule.get("to", [])]

    assert {"namespaceSelector": {}} in allowed
    assert {"0.0.0.0/0", "::/0"} == {peer["ipBlock"]["cidr"] for peer in allowed if "ipBlock" in peer}


def test_only_the_ingress_and_prometheus_connect_to_the_web_process() -> None:
    """Any other pod could pose as the proxy: WEIR_TLS_PROXIES has the network of all pods."""
    rules = of_kind("NetworkPolicy")["weir-web"]["spec"]["ingress"]
    namespaces = [peer["namespaceSelector"]["matchLabels"] for rule in rules for peer in rule["from"]]

    assert "WEIR_TLS_PROXIES" in variables()
    assert {found["kubernetes.io/metadata.name"] for found in namespaces} == {"ingress-nginx", "monitoring"}


def test_a_web_pod_serves_until_proxies_know_that_it_ends() -> None:
    """It takes requests for some seconds more, and has the time for those."""
    [container] = pods()["web"]["containers"]
    program, seconds = container["lifecycle"]["preStop"]["exec"]["command"]

    assert program == "sleep"
    assert 3 <= int(seconds) <= pods()["web"]["terminationGracePeriodSeconds"] / 3


def test_fetchers_are_scaled_by_the_oldest_due_fetch() -> None:
    """KEDA asks for metrics that there are, and nothing else says how many fetchers run."""
    import jsonschema  # noqa: PLC0415  as above

    [scaled] = of_kind("ScaledObject").values()
    jsonschema.Draft202012Validator(SCALED_OBJECT).validate(scaled)
    [trigger] = scaled["spec"]["triggers"]
    names = set(re.findall(r"weir_\w+", trigger["metadata"]["query"]))
    [queue] = re.findall(r'queue="([\w.]+)"', trigger["metadata"]["query"])
    code = "".join(path.read_text() for path in (CHECKOUT / "weir" / "ops" / "metrics").rglob("*.py"))

    assert scaled["spec"]["scaleTargetRef"]["name"] == "weir-fetcher"
    assert "replicas" not in of_kind("Deployment")["weir-fetcher"]["spec"]
    assert "weir_fetches_oldest_due_seconds" in names
    assert {name for name in names if f'"{name}"' not in code} == set()
    assert queue in schedule.queues()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing (apt install prometheus)")
def test_fetchers_are_scaled_only_where_more_of_them_help(tmp_path: Path) -> None:
    """Where no message waits for a fetcher, the oldest fetch waits for its site. Web processes all tell the same."""
    [scaled] = of_kind("ScaledObject").values()
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    series = {
        'weir_fetches_oldest_due_seconds{instance="a"}': "300 300 0",
        'weir_fetches_oldest_due_seconds{instance="b"}': "290 290 0",
        'weir_messages_waiting{queue="weir.fetch"}': "4 0 0",
        'weir_messages_waiting{queue="weir.mail"}': "9 9 9",
    }
    expected = {"0m": 300, "1m": 0, "2m": 0}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": moment, "exp_samples": [{"labels": "{}", "value": value}]}
            for moment, value in expected.items()
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))

    command = ["promtool", "test", "rules", str(tmp_path / "test.yml")]
    result = subprocess.run(command, check=False, capture_output=True, text=True)

    assert result.returncode == 0, result.stdout + result.stderr
