"""An island for a newcomer: a network of its own, in which the hosts that the pages name are sites of the test's.

The pages say `https://example.com/`, as readers will type it, and nobody's server may be asked for it by a test. So all
that a page runs is in a network namespace of Linux that has no way out, and in a mount namespace in which `/etc/hosts`
gives each of these names an address. The addresses are public ones, from which Weir fetches unasked: nothing is set
that a reader would not set, and no process is patched. Port 8000 is free there, whatever runs beside it. The sites have
a certificate that SSL_CERT_FILE names. The host's own network and files do not change, and nothing is left.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from project.checkout import CHECKOUT
from tests.acceptance.networks import AS_ROOT, Unavailable, unshared

ADDRESSES = "93.184.215"  # public ones, or they would be refused; here they are on the loopback device
SITES = Path(__file__).with_name("sites.py")
SELF_SIGNED = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=example.com"
# A user other than root is root where the network is made, and itself again where the pages' commands run.
ENTER_AS_ROOT = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
AS_ONESELF = (
    () if os.geteuid() == 0 else ("unshare", "--user", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}")
)


@dataclass(frozen=True, kw_only=True)
class Island:
    """`enter` is what the command of a process on the island begins with."""

    enter: tuple[str, ...]
    certificate: Path


@contextmanager
def inhabited(hosts: Sequence[str], folder: Path) -> Iterator[Island]:
    """Make an island with a site for each host; raises Unavailable, saying why, where the system forbids it."""
    certificate = _certificate(hosts, folder)
    names = folder / "hosts"
    places = [f"{ADDRESSES}.{number} {host}" for number, host in enumerate(hosts, 1)]
    names.write_text("\n".join(["127.0.0.1 localhost", *places, ""]))
    set_up = f'ip link set lo up && ip route add local {ADDRESSES}.0/24 dev lo && mount --bind "{names}" /etc/hosts'
    with unshared(["unshare", "--net", "--mount", *AS_ROOT], set_up) as pid:
        enter = ("nsenter", f"--target={pid}", "--net", "--mount", *ENTER_AS_ROOT)
        with _sites(enter, certificate, folder):
            yield Island(enter=(*enter, *AS_ONESELF), certificate=certificate)


def _certificate(hosts: Sequence[str], folder: Path) -> Path:
    """Make the certificate of all hosts, with its key in the same file; returns what clients are to trust."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    names = "subjectAltName=" + ",".join(f"DNS:{host}" for host in hosts)
    subprocess.run(
        [*SELF_SIGNED.split(), "-addext", names, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    certificate.chmod(0o644)
    return certificate


@contextmanager
def _sites(enter: Sequence[str], certificate: Path, folder: Path) -> Iterator[None]:
    command = [*enter, sys.executable, str(SITES), str(certificate), str(folder / "key.pem")]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise Unavailable("The sites of the pages did not start.")
        yield
        process.terminate()
