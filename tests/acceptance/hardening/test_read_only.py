"""Confined as the containers of docker-compose.yml are.

No capability, nothing to write to but an empty /tmp, and of Weir's variables only those that Compose hands out.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from demo.fakes import sites
from project.checkout import CHECKOUT
from tests import own_servers, valkeys
from tests.acceptance import all_jobs, web_process
from tests.acceptance.all_jobs import USERS, ship
from tests.acceptance.conftest import CELERY, READY, Cluster, all_ended, set_rates, states
from tests.waiting import wait_for
from weir.notifications import inbox
from weir.notifications.models import UnreadCount
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import FetchState

# In a mount namespace of its own, so that nobody else sees it. The checkout, which may lie below /tmp, stays visible.
CONFINE = """
mount --bind "$0" /mnt
mount -t tmpfs -o mode=1777,size=64m tmpfs /tmp
mkdir -p "$0"
mount --bind /mnt "$0"
mount -o remount,ro,bind "$0"
umount /mnt
mount -o remount,ro,bind /
cd "$0"
exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all --no-new-privs "$@"
"""
CONFINED = ("unshare", "--mount", "sh", "-e", "-c", CONFINE, str(CHECKOUT))
ALL = ("worker", "ticks", "maintenance", "fetcher", "mailer", "beat")
NAMES = ALL if "WEIR_FAULTS" in os.environ else ("ticks", "fetcher", "beat")
LOOK = """
import errno, pathlib
status = dict(line.split(":\t") for line in pathlib.Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
print(status["CapEff"], status["CapBnd"], status["NoNewPrivs"])
for folder in ("/", "/var/tmp", "/root", "."):
    try:
        pathlib.Path(folder, "written").touch()
    except OSError as error:
        print(errno.errorcode[error.errno])
pathlib.Path("/tmp/written").touch()
"""
FETCHES = 20


def handed_out(service: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the container of the service has of the environment: an empty key where it signs nothing."""
    listed = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"][service]["environment"]
    ours = re.compile("WEIR_|DJANGO_|EMAIL_|DEFAULT_FROM|OTEL_")
    kept = {name: value for name, value in environment.items() if name in listed or not ours.match(name)}
    return kept if listed["DJANGO_SECRET_KEY"] else {**kept, "DJANGO_SECRET_KEY": ""}


def can_confine() -> bool:
    """Tell whether this machine lets us make such a namespace."""
    return (
        os.geteuid() == 0
        and all(map(shutil.which, ("unshare", "setpriv")))
        and subprocess.run([*CONFINED, "true"], check=False, capture_output=True).returncode == 0
    )


pytestmark = pytest.mark.skipif(not can_confine(), reason="needs root, and the right to mount (Debian: util-linux)")


@pytest.fixture
def confined(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Return the cluster, with servers that are reached by TCP: sockets lie in folders that are not there."""
    host = f"127.99.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
    with (
        own_servers.primary({"listen_addresses": host}) as server,
        valkeys.valkeys(tmp_path / "servers") as redises,
    ):
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"host all all 127.0.0.0/8 trust\n{rules.read_text()}")
        server.query("SELECT pg_reload_conf()")
        redis_url = f"redis://:secret@{redises.start('--requirepass', 'secret').place}/0"
        cluster.environment |= {"REDIS_URL": redis_url, "PYTHONDONTWRITEBYTECODE": "1"}
        with all_jobs.on(cluster, str(server.folder)):
            cluster.environment["DATABASE_URL"] = f"postgresql://postgres@{host}/{own_servers.NAME}"
            yield cluster


def _says(log: Path, text: str) -> bool:
    return text in log.read_text(errors="replace")


def test_the_confinement_is_real() -> None:
    """A process in it has no capability, nor can it get one, and writes to /tmp alone."""
    found = subprocess.run([*CONFINED, sys.executable, "-c", LOOK], check=True, capture_output=True, text=True)

    assert found.stdout.splitlines() == [f"{'0' * 16} {'0' * 16} 1", *["EROFS"] * 4]


@pytest.mark.faults
def test_processes_run_on_a_read_only_file_system(confined: Cluster) -> None:
    """Those of the Procfile do their work, and the checks of their health pass."""
    with all_jobs.mails(confined) as mails, sites.running(2, confined.folder) as running:
        set_rates(running, dict.fromkeys(running.hosts, "20/s"))
        every = confined.environment
        for name in NAMES:
            confined.environment = handed_out(name, every)
            confined.launch(name, name, celery=(*CONFINED, *CELERY))
        confined.environment = handed_out("web", every)
        url = web_process.start(confined, "web", within=CONFINED)
        confined.environment = every
        for name in NAMES:  # they take longer to start than those that are forked
            log = confined.log(name)
            wait_for(partial(_says, log, READY[name]), 90, f"{name}: {log}")
        request_fetches([running.url(number % 2, f"/ok/{number}") for number in range(FETCHES)])
        wait_for(all_ended, 60, f"the fetches: {states()}")
        if NAMES == ALL:
            inbox.notify_many([*USERS], "news", "Hello")
            ship(5)
            wait_for(lambda: UnreadCount.objects.filter(unread_count=1).count() == len(USERS), 30, "the flush")
            wait_for(lambda: mails.received().total() == 5, 30, "the e-mails")
    assert states() == {FetchState.DONE: FETCHES}
    assert web_process.answer(f"{url}/readyz")[0] == 200
    for name in NAMES:
        command = [*CONFINED, sys.executable, "manage.py", "check_heartbeat", "--process", name]
        subprocess.run(command, env=handed_out(name, confined.environment), check=True, capture_output=True)
    logged = "".join(confined.log(name).read_text() for name in (*NAMES, "web"))
    print(f"\n{FETCHES} fetches by web, {', '.join(NAMES)}")
    assert "Read-only file system" not in logged
