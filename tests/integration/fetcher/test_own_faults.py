"""It is not a site's fault if the fetcher itself has run out of something: no attempt is counted, and it goes on."""

import json
from pathlib import Path

import pytest

from demo.fakes import sites
from tests.integration.conftest import StartPython
from weir.workers.fetches.models import FetchState

pytestmark = pytest.mark.django_db(transaction=True)

# Fetches one URL, another while no descriptor is left, and that again afterwards; prints what became of it each time.
SCRIPT = """
import json, os, resource, time
from django.test import override_settings
override_settings(WEIR_FETCH_ALLOW_NETS=["127.1.0.0/16"]).enable()
from tests.integration.fetching import fetched, reserve_all
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch

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
while not fetcher._session.is_paused() or state()[0] != "queued":
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
    assert told["without"] == [FetchState.QUEUED, 0, ""]
    assert told["afterwards"] == [FetchState.DONE, 1, ""]


# A process with a network of its own, which has four local ports, sends one address more requests at the same time.
NETWORK = """
import ctypes, os, subprocess, sys
from pathlib import Path
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
try:
    assert ctypes.CDLL(None).unshare(CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWUSER | CLONE_NEWNET) == 0
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("50000 50003")
except (AssertionError, AttributeError, OSError, subprocess.CalledProcessError):
    print('{"unavailable": true}', flush=True)
    sys.exit()
"""
PORTS = """
import json, time
from pathlib import Path
from django.test import override_settings
override_settings(WEIR_FETCH_ALLOW_NETS=["127.1.0.0/16"]).enable()
override_settings(WEIR_DEFAULT_RATE="100/s").enable()
from structlog.testing import capture_logs
from demo.fakes import sites
from tests.integration.fetching import reserve_all
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch

with sites.running(1, Path(sys.argv[1])) as site, capture_logs() as logs:
    fetcher = Fetcher()
    request_fetches([site.url(0, f"/slow/300/{number}") for number in range(6)], max_attempts=1)
    give_up_at = time.monotonic() + 30
    while Fetch.objects.unfinished().exists():
        assert time.monotonic() < give_up_at, "a fetch did not end"
        if slots := reserve_all():
            fetcher.run_batch(slots)
        time.sleep(0.02)
    fetcher.close(3.0)
ends = sorted(set(Fetch.objects.values_list("state", "attempts", "error")))
said = [entry["error"] for entry in logs if entry["event"] == "fetcher_has_run_out"]
print(json.dumps({"ends": ends, "said": said}), flush=True)
"""


def test_a_fetcher_without_local_ports_gives_back_and_goes_on(tmp_path: Path, start_python: StartPython) -> None:
    """More fetches together from one address than the host has ports: each is done, with its only attempt."""
    output, _ = start_python(PORTS, tmp_path, before=NETWORK).communicate(timeout=60)
    told = json.loads(output)
    if "unavailable" in told:
        pytest.skip("this host lets nobody have a network of their own")
    assert told["ends"] == [[FetchState.DONE, 1, ""]]
    assert len(told["said"]) == 1
    assert "Cannot assign requested address" in told["said"][0]
