"""All three jobs beside a replica that a project's router has reads go to, while it is behind or stands still."""

import json
import time
import uuid
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, router

from demo.fakes import sites
from demo.fakes.mail_server import MailServer
from tests import own_servers
from tests.acceptance import all_jobs, under_load, web_process
from tests.acceptance.conftest import Cluster, set_rates
from tests.own_servers import Server, beside
from weir.api.tokens import actions as tokens
from weir.notifications.models import Notification
from weir.workers.audit.acting import of_shell
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch

WORK_S = 10.0
BEHIND = "3s"


class Router:
    """Has all rows read from the replica, as in Django's documentation ("Multiple databases")."""

    def db_for_read(self, _model: object, **_hints: object) -> str:
        return "replica"

    def db_for_write(self, _model: object, **_hints: object) -> str:
        return "default"


@pytest.fixture(params=["behind", "paused"])
def replica(request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A replica, which the cluster and this process read from wherever a project's router is asked."""
    with own_servers.primary() as server, all_jobs.on(cluster, str(server.folder)):
        standby = server.copied(beside(server, "replica"), as_standby=True)
        standby.options["recovery_min_apply_delay"] = BEHIND
        standby.start()
        if request.param == "paused":
            standby.query("SELECT pg_wal_replay_pause()")
        of_replica = {**connection.settings_dict, "HOST": str(standby.folder)}
        monkeypatch.setitem(connections.settings, "replica", of_replica)
        monkeypatch.setattr(router, "routers", [router.routers[0], Router()])
        cluster.environment |= {
            "DJANGO_SETTINGS_MODULE": "tests.setups.replica",
            "TEAM_REPLICA_HOST": str(standby.folder),
        }
        yield standby
        connections["replica"].close()


def ask(base: str, secret: str, title: str) -> tuple[int, str | None]:
    """Let a program notify a user over the API; returns the status, and whether the answer is given again."""
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json", "Idempotency-Key": title}
    body = json.dumps({"users": [7], "kind": "k", "title": title}).encode()
    with urlopen(Request(f"{base}/api/v1/notifications", body, headers), timeout=30) as answer:  # noqa: S310  ours
        return answer.status, answer.headers["Idempotent-Replayed"]


@pytest.mark.django_db(transaction=True)
def test_all_jobs_are_done_beside_it(cluster: Cluster, replica: Server, mails: MailServer) -> None:
    """None is lost, early, or done twice, in web code, workers and the API; none waits for the replica."""
    Group.objects.create(name="of the project")
    assert router.db_for_read(Group) == "replica"
    assert replica.query("SELECT FROM auth_group") == []  # it is behind
    secret = tokens.create(of_shell(), "program", ["weir_notifications.add_notification"]).secret
    with sites.running(under_load.SITES, cluster.folder) as running:
        rates = {host: under_load.RATES[place % 3] for place, host in enumerate(running.hosts)}
        intervals = set_rates(running, rates)
        base = web_process.start(cluster, "web")
        cluster.start_together(*under_load.NAMES)
        web = under_load.Web(running=running)
        titles = []
        began = time.monotonic()
        with web.working():
            while time.monotonic() < began + WORK_S:
                titles.append(uuid.uuid4().hex)
                assert [ask(base, secret, titles[-1]) for _ in range(2)] == [(201, None), (201, "true")]
                url = running.url(len(titles) % under_load.SITES, f"/ok/{titles[-1]}")
                assert request_fetch(url, dedupe=True).pk == request_fetch(url, dedupe=True).pk
        connection.close()
        outcome = under_load.outcome(running, mails, web.committed, intervals)
    print(f"\n{outcome}; {len(titles)} pairs of requests to the API")
    outcome.check()
    assert web.refused == 0
    assert Notification.objects.filter(title__in=titles).count() == len(titles)
    assert Fetch.objects.filter(url__endswith=titles[0]).count() == 1
