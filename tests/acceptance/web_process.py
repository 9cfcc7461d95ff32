"""The web process of a cluster, and commands, as its processes run."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from honcho.environ import parse_procfile

from demo.fakes.children import die_with_parent
from project.checkout import CHECKOUT
from tests.acceptance.conftest import Cluster
from tests.waiting import wait_for


def start(cluster: Cluster, name: str, *, within: Sequence[str] = ()) -> str:
    """Start a web process as the Procfile does, on a free port; returns its address, such as http://127.0.0.1:8000.

    `within` is a command to which that is handed.
    """
    line = parse_procfile((CHECKOUT / "Procfile").read_text()).processes["web"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with cluster.log(name).open("wb") as output:
        cluster.processes[name] = subprocess.Popen(
            [*within, "/bin/sh", "-c", f"exec {line}"],
            cwd=CHECKOUT,
            env={**cluster.environment, "PORT": "0", "PATH": path},
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread runs here
        )

    def url() -> str:
        found = re.search(r"Uvicorn running on (http://[\d.]+:\d+)", cluster.log(name).read_text())
        return found[1] if found else ""

    wait_for(url, 30, f"{name}: {cluster.log(name)}")
    return url()


def manage(cluster: Cluster, *arguments: str, **environment: str) -> str:
    """Run a command of manage.py as the cluster's processes run; returns what it writes."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=CHECKOUT, env={**cluster.environment, **environment}, check=True, capture_output=True, text=True
    ).stdout


def answer(url: str, shown: str = "", method: str = "GET") -> tuple[int, str]:
    """Return the status and the body of an answer; `shown` is the token."""
    headers = {"Authorization": f"Bearer {shown}"} if shown else {}
    try:
        with urlopen(Request(url, headers=headers, method=method), timeout=30) as found:  # noqa: S310
            return found.status, found.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
