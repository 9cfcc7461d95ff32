"""RabbitMQ as the broker, killed and started again under load: nothing is lost, and all goes on by itself."""

import os
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests import rabbitmqs
from tests.acceptance import all_jobs, under_load
from tests.acceptance.conftest import Cluster
from tests.forked import Forked
from tests.rabbitmqs import RabbitMQ
from weir.workers.recovery.models import Recovery

pytestmark = pytest.mark.skipif(not (rabbitmqs.SERVER and rabbitmqs.EPMD), reason=rabbitmqs.MISSING)
KILLS = 20 if "WEIR_FAULTS" in os.environ else 1
GOES_ON_WITHIN_S = 15.0
DOCTOR = "from django.core import management; management.execute_from_command_line(['manage.py', 'doctor'])"


@pytest.fixture
def broker(cluster: Cluster, settings: Settings) -> Iterator[RabbitMQ]:
    """A RabbitMQ, which the cluster uses; unread numbers stay in its Redis."""
    settings.REDIS_URL = cluster.environment["REDIS_URL"]
    all_jobs.forget()
    with rabbitmqs.running(cluster.folder / "rabbitmq") as made:
        cluster.environment["CELERY_BROKER_URL"] = made.url
        try:
            yield made
        finally:
            cluster.stop()
    all_jobs.forget()


@pytest.mark.faults
def test_all_jobs_go_on_after_each_kill(cluster: Cluster, broker: RabbitMQ, mails: MailServer) -> None:
    """Each worker connects anew, and each way goes on."""

    def die() -> None:
        broker.kill()
        broker.start()

    under_load.run(cluster, mails, KILLS, die).check(GOES_ON_WITHIN_S)
    assert not Recovery.objects.exists()
    # What a connection says that two threads have read.
    assert [name for name in under_load.NAMES if "UnexpectedFrame" in cluster.log(name).read_text()] == []
    said, _ = Forked("-c", DOCTOR, environment=cluster.environment).communicate()
    for sentence in ("The server of CELERY_BROKER_URL answers.", "Workers consume default", "Waiting messages: "):
        assert sentence in said
