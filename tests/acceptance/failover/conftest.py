"""What the tests of fail-overs share."""

from collections.abc import Iterator

import pytest

from demo.fakes.mail_server import MailServer
from tests.acceptance import all_jobs
from tests.acceptance.conftest import Cluster


@pytest.fixture
def mails(cluster: Cluster) -> Iterator[MailServer]:
    with all_jobs.mails(cluster) as running:
        yield running
