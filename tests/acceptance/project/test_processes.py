"""Each kind of process is known by name while it runs, and its own loop says that it goes on."""

import json
import signal
from io import StringIO

from django.core.management import CommandError, call_command

from tests.acceptance.conftest import Cluster
from tests.waiting import wait_for
from weir.workers.processes.models import Process
from weir.workers.processes.status import processes

KINDS = ("beat", "fetcher", "mailer", "maintenance", "ticks", "worker")
KNOWN_WITHIN_S = 10


def test_a_process_of_each_kind_that_is_frozen_is_known(cluster: Cluster) -> None:
    """SIGSTOP of all, and each probe fails; SIGCONT, and each succeeds; in order ended, no row is left."""
    cluster.start_together(*KINDS)
    assert states() == dict.fromkeys(KINDS, "alive")
    pids = {kind: cluster.processes[kind].pid for kind in KINDS}
    assert dict(Process.objects.values_list("kind", "pid")) == pids
    assert [probe(str(pid)) for pid in pids.values()] == [True] * len(KINDS)

    for kind in KINDS:
        cluster.processes[kind].send_signal(signal.SIGSTOP)
    wait_for(lambda: states() == dict.fromkeys(KINDS, "silent"), KNOWN_WITHIN_S, "all to be known as silent")
    assert [probe(kind) for kind in KINDS] == [False] * len(KINDS)
    assert listed() == (dict.fromkeys(KINDS, "silent"), 1)

    for kind in KINDS:
        cluster.processes[kind].send_signal(signal.SIGCONT)
    wait_for(lambda: states() == dict.fromkeys(KINDS, "alive"), 5, "all to turn again")
    assert [probe(kind) for kind in KINDS] == [True] * len(KINDS)
    assert listed() == (dict.fromkeys(KINDS, "alive"), 0)

    cluster.kill("worker")
    for kind in ("beat", "fetcher", "mailer", "maintenance", "ticks"):
        cluster.processes[kind].send_signal(signal.SIGTERM)
    wait_for(lambda: states().keys() == {"worker"}, 10, "those that end in order to go from the table")
    wait_for(lambda: states() == {"worker": "silent"}, KNOWN_WITHIN_S, "the one that was killed to be known")


def states() -> dict[str, str]:
    """Return how each kind of process does."""
    return {process.kind: process.state for process in processes()}


def probe(name: str) -> bool:
    """Tell whether `check_heartbeat` succeeds for a process of this host."""
    try:
        call_command("check_heartbeat", "--process", name, stdout=StringIO())
    except CommandError:
        return False
    return True


def listed() -> tuple[dict[str, str], int]:
    """Return what `processes --json` says, and its exit status."""
    output, status = StringIO(), 0
    try:
        call_command("processes", "--json", stdout=output)
    except SystemExit as end:
        status = int(str(end.code))
    return {process["kind"]: process["state"] for process in json.loads(output.getvalue())}, status
