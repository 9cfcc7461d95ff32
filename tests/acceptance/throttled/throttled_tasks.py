"""What the workers of test_throttled_tasks run."""

import os
from urllib.parse import urlsplit
from urllib.request import build_opener, install_opener, urlopen

from celery import shared_task

from weir.ratelimit.throttle import throttle
from weir.workers.throttled.decorator import throttled_task

# What a request needs is made before the first one: `throttle` paces the beginning of a body, not what the body takes.
install_opener(build_opener())


def host_of(url: str) -> str:
    """Return the site of a URL of the fake sites, whose port is not the scheme's default."""
    return urlsplit(url).netloc


@throttled_task(site=host_of, max_wait=1.5)
@shared_task(name="tests.visit")
def visit(url: str) -> None:
    """Ask for the URL, first thing; the query says which process asks."""
    with urlopen(f"{url}?{os.getpid()}", timeout=10) as answer:  # noqa: S310  a fake site's
        answer.read()


@shared_task(name="tests.use_slots")
def use_slots(site: str, count: int) -> None:
    """Start so many times, one after the other: with that, the process shares a run."""
    for _ in range(count):
        with throttle(site):
            pass
