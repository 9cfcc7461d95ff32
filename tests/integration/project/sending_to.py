"""Make this process send its messages to a broker that a test has started, or to none."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from celery import Celery

from project.environment import transports, urls
from weir.workers import broker_link

ASKED_WITHIN_S = 1.5  # by web code


@contextmanager
def sending_to(url: str, queue: str, *, redis_url: str = "") -> Iterator[None]:
    """Make this process send its messages to the broker of these URLs, and to this queue by default."""
    broker = urls.broker(url, redis_url)
    assert broker
    app = Celery(broker=broker, set_as_current=False)
    app.conf.broker_transport_options = transports.options(broker, "") | urls.broker_options(url, redis_url)
    app.conf.task_publish_retry = False
    app.conf.task_default_queue = queue
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(broker_link, "app", lambda: app)
        broker_link.forget_outage()
        yield
    broker_link.forget_outage()
