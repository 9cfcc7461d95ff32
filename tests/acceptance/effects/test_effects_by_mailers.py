"""Effects by a real mailer, told by beat."""

import signal

from tests import payments
from tests.acceptance.conftest import Cluster
from tests.refunds import BLIND, KINDS, PROBED, queue
from tests.waiting import wait_for
from weir.workers.effects.models import Effect


def states() -> dict[str, str]:
    """Return the states of all effects, by their keys."""
    return dict(Effect.objects.values_list("key", "state"))


def test_a_mailer_performs_effects_and_ends_when_its_calls_have(cluster: Cluster) -> None:
    """Beat tells it within two seconds. A call that is in flight when it is told to end is waited for."""
    with payments.running() as api:
        cluster.launch("mailer", "mailer", "--include", "tests.refunds")
        cluster.launch("beat", "beat")
        for name in ("mailer", "beat"):
            cluster.wait_until_ready(name, name)
        first = {queue(kind, api.port).key: "done" for kind in KINDS}
        cut = queue(PROBED, api.port, "cut-done").key
        wait_for(lambda: states() == first | {cut: "done"}, 30, "all to be done, one by its probe")
        slow = queue(BLIND, api.port, "slow")
        wait_for(lambda: api.refunds()[slow.key], 10, "the API to do the slow one, and not to answer yet")
        assert states()[slow.key] == "begun"
        mailer = cluster.processes["mailer"]
        mailer.send_signal(signal.SIGTERM)
        wait_for(lambda: mailer.poll() is not None, 30, "the mailer to end")
        assert states()[slow.key] == "done"
        assert set(api.refunds().values()) == {1}
