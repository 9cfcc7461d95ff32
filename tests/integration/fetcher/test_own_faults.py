"""What a fetcher itself has run out of is no fault of a site: no attempt is counted, and it goes on by itself."""

import json

import pytest

from demo.fakes import sites
from tests.integration.conftest import StartPython
from workers.fetches.models import State

pytestmark = pytest.mark.django_db(transaction=True)

# Fetches one URL, another while no descriptor is left, and that again afterwards; tells what became of it each time.
SCRIPT = """
import json, os, resource, time
from django.conf import settings
settings.WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
from tests.integration.fetching import fetched, reserve_all
from workers.fetches.enqueue import request_fetch
from workers.fetches.fetcher.fetcher import Fetcher
from workers.fetches.models import Fetch

def state():
    return Fetch.objects.values_list("state", "attempts", "error").get(pk=hindered.pk)

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
fetcher = Fetcher()
allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
fetched(request_fetch(sys.argv[1]), fetcher)  # now all its connections to PostgreSQL are open
hindered = request_fetch(sys.argv[2])
slots = reserve_all()
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
began_at = time.monotonic()
while not fetcher._session.rests() or state()[0] != "queued":
    assert time.monotonic() < began_at + 10
    if slots:
        fetcher.run_batch(slots)
        slots = None
    time.sleep(0.01)
without = state()
resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
fetched(hindered, fetcher)
fetcher.close(3.0)
print(json.dumps({"allowed": allowed == hard, "without": without, "afterwards": state()}), flush=True)
"""


def test_a_fetcher_without_descriptors_gives_back_and_goes_on(
    running_sites: sites.Sites, start_python: StartPython
) -> None:
    """The fetch waits in the queue, without an attempt or an error, and is done once there are descriptors again."""
    urls = (running_sites.url(0, "/ok"), running_sites.url(1, "/ok"))
    output, _ = start_python(SCRIPT, *urls).communicate(timeout=60)
    told = json.loads(output)
    assert told["allowed"], "the fetcher raises its limit"
    assert told["without"] == [State.QUEUED, 0, ""]
    assert told["afterwards"] == [State.DONE, 1, ""]
