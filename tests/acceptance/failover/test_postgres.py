"""PostgreSQL fails over to its synchronous standby under load, back and forth: nothing is lost, and all goes on."""

import os
from collections.abc import Iterator

import pytest
from django.db import connection

from demo.fakes.mail_server import MailServer
from tests import own_servers
from tests.acceptance import all_jobs, networks, under_load
from tests.acceptance.conftest import CELERY, Cluster
from tests.own_pair import Pair
from tests.own_servers import beside
from tests.waiting import in_time, wait_for
from weir.notifications.models import Reconciliation
from weir.postgres.timeline.models import KnownTimeline
from weir.workers.recovery.models import Recovery

AT_LENGTH = "WEIR_FAULTS" in os.environ
FAIL_OVERS = 20 if AT_LENGTH else 1
GOES_ON_WITHIN_S = 10.0
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'weir'"


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[Pair]:
    """A primary and its standby, which the cluster and this process use."""
    with own_servers.primary() as server:
        hosts = f"{server.folder},{beside(server, 'standby')}"
        with all_jobs.on(cluster, hosts, target_session_attrs="read-write"):
            yield Pair.of(server)


def knows_the_standby() -> bool:
    """Tell whether Weir has noted, in the history that is, that commits wait for the standby."""
    connection.close()
    return KnownTimeline.objects.filter(is_synchronous=True).exists()


@pytest.fixture
def separate() -> Iterator[networks.Networks]:
    """Return a network for Weir, and one for each of two servers."""
    try:
        with networks.separate(2) as made, made.sites.entered():
            yield made
    except networks.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def distant(separate: networks.Networks, cluster: Cluster) -> Iterator[Pair]:
    """A pair whose servers have hosts of their own, which can be cut off from Weir."""
    inside = [network.enter for network in separate.clients]
    addresses = ",".join(f"{networks.CABLES}.{number}.2" for number in range(2))
    with (
        own_servers.primary({"listen_addresses": "*"}, inside=inside[0]) as server,
        all_jobs.on(cluster, addresses, target_session_attrs="read-write", connect_timeout="2"),
    ):
        yield Pair.of(server, inside=inside[1])


@pytest.mark.faults
def test_all_jobs_go_on_after_each_fail_over(cluster: Cluster, pair: Pair, mails: MailServer) -> None:
    """The primary dies, and its standby is promoted; the old primary becomes the standby."""

    def fail_over() -> None:
        wait_for(knows_the_standby, 30, "a note that commits wait")
        pair.primary.kill()
        pair.promote()

    run = under_load.run(cluster, mails, FAIL_OVERS, fail_over, pair.rebuild)
    run.check(GOES_ON_WITHIN_S)
    assert run.refused
    assert not Recovery.objects.exists()
    assert Reconciliation.objects.get().trusted


@pytest.mark.skipif(not AT_LENGTH, reason="takes a minute: `make faults`")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run PostgreSQL in a network of its own")
@pytest.mark.faults
def test_all_jobs_go_on_where_the_old_primary_is_cut_off_and_returns(
    cluster: Cluster, separate: networks.Networks, distant: Pair, mails: MailServer
) -> None:
    """Its cable is pulled, the standby promoted, and the cable put back: both take themselves for the primary then."""
    fenced: list[float] = []
    cables = {str(distant.primary.folder): 0, str(distant.standby.folder): 1}

    def fail_over() -> None:
        wait_for(knows_the_standby, 30, "a note that commits wait")
        networks.cable_to(separate, cables[str(distant.primary.folder)]).pull()
        distant.promote()

    def return_and_rebuild() -> None:
        old = distant.standby
        number = cables[str(old.folder)]
        networks.cable_to(separate, number).put_back()
        if number == 0:  # the host that is tried first: what connects anew, has come to the wrong one
            wait_for(lambda: old.query(WAITS)[0][0], 30, "commits at the old primary, such as of web code")
            old.kill()
            went_on = under_load.seconds_until_each_goes_on(mails, under_load.now())
            print(f"the old primary has returned, and was killed: {went_on}")
            fenced.append(max(went_on.values()))
        distant.rebuild()

    celery = (*separate.sites.enter, *CELERY)
    run = under_load.run(cluster, mails, FAIL_OVERS // 2, fail_over, return_and_rebuild, celery=celery)
    assert not Recovery.objects.exists()
    assert Reconciliation.objects.get().trusted
    run.check(GOES_ON_WITHIN_S)
    in_time(max(fenced) < GOES_ON_WITHIN_S, f"slowest after the old primary was killed: {max(fenced)} s")
