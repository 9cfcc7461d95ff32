"""The Procfile's line `weir` on two hosts, under load: one is killed, or frozen, with all that it has in hand.

It is beat, ticks, maintenance, fetcher and mailer in one: what ends it ends all of them, and the other one goes on.
"""

import os
import signal
from itertools import cycle

import pytest

from tests import own_servers
from tests.acceptance import all_jobs, under_load
from tests.acceptance.conftest import Cluster

FAULTS = 20 if "WEIR_FAULTS" in os.environ else 2
GOES_ON_WITHIN_S = 15.0
NAMES = ("weir-1", "weir-2")
# So that what a killed process was sending is over within the run: it is `unknown`, after this time.
MAIL_LIMITS = {"WEIR_MAIL_REPLY_TIMEOUT": "4", "WEIR_MAIL_LEASE": "8", "WEIR_MAIL_UNKNOWN_AFTER": "10"}


@pytest.mark.faults
def test_one_of_two_is_killed_or_frozen(cluster: Cluster) -> None:
    """Nothing is early, lost, twice or wrong, and all three jobs go on while it is away."""
    coming = cycle([("weir-1", signal.SIGKILL), ("weir-2", signal.SIGSTOP)])
    hit: list[tuple[str, signal.Signals]] = []

    def fault() -> None:
        hit.append(next(coming))
        name, sent = hit[-1]
        os.kill(cluster.processes[name].pid, sent)

    def mend() -> None:
        name, sent = hit[-1]
        if sent == signal.SIGSTOP:
            os.kill(cluster.processes[name].pid, signal.SIGCONT)
        else:
            cluster.processes.pop(name).wait()
            cluster.start_together(name)

    cluster.environment |= MAIL_LIMITS
    with (
        own_servers.primary() as server,
        all_jobs.on(cluster, str(server.folder)),
        all_jobs.mails(cluster) as mails,
    ):
        under_load.run(cluster, mails, FAULTS, fault, mend, names=NAMES).check(GOES_ON_WITHIN_S)
