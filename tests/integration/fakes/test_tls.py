"""The fake sites with TLS, and the certificates that benchmarks make for them."""

import ssl
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from benchmarks import certificates
from demo.fakes.sites import running
from tests.integration.fakes.conftest import TIMEOUT_S, logged


def test_each_site_has_its_certificate_and_answers_on_a_kept_connection(tmp_path: Path) -> None:
    with certificates.of_sites(2, tmp_path) as made, running(2, tmp_path, certificates=made) as sites:
        assert sites.url(1, "/tls") == f"https://{sites.hosts[1]}:{sites.port}/tls"
        verified = ssl.create_default_context()
        with closing(HTTPSConnection(sites.hosts[1], sites.port, timeout=TIMEOUT_S, context=verified)) as connection:
            for path in ("/tls", "/big/200000"):
                connection.request("GET", path)
                assert len(connection.getresponse().read()) == (2_000 if path == "/tls" else 200_000)
        assert logged(sites, "/tls")[0].place == 1
        assert logged(sites, "/big/200000")[0].place == 2


def test_their_authority_is_trusted_only_while_they_run(tmp_path: Path) -> None:
    with certificates.of_sites(1, tmp_path) as made, running(1, tmp_path, certificates=made) as sites:
        pass
    with running(1, tmp_path, certificates=made) as sites:
        connection = HTTPSConnection(
            sites.hosts[0], sites.port, timeout=TIMEOUT_S, context=ssl.create_default_context()
        )
        with closing(connection), pytest.raises(ssl.SSLCertVerificationError):
            connection.request("GET", "/")
