"""Certificates for fake sites that speak TLS, by an authority that is made for one run and trusted only in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from demo.fakes.hosts import host

TRUSTED = "SSL_CERT_FILE"  # names the authorities that OpenSSL trusts, and so do Weir and urllib3


@contextmanager
def of_sites(hosts: int, folder: Path) -> Iterator[Path]:
    """Yield the folder of certificates of this many sites; processes started in this block trust their authority."""
    authority = trustme.CA()
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    for address in map(host, range(hosts)):
        authority.issue_cert(address).private_key_and_cert_chain_pem.write_to_path(str(folder / f"{address}.pem"))
    os.environ[TRUSTED] = str(trusted)
    try:
        yield folder
    finally:
        del os.environ[TRUSTED]
