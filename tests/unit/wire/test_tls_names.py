"""Whom a certificate is for: names with an underscore are matched as all others are, though not by OpenSSL."""

import ssl
from contextlib import suppress

import pytest
import trustme

from workers.fetches.fetcher.wire.tls import Tls, context, context_without_names

# What a certificate is for, the host (with a hyphen in place of an underscore), and whether it is for that.
NAMES: list[tuple[list[str], str, bool]] = [
    (["*.site.example"], "a-b.site.example", True),
    (["*.SITE.example"], "a-b.site.example", True),
    (["other.example", "*.site.example"], "a-b.site.example", True),
    (["*.site.example"], "a-b.c.site.example", False),
    (["*.site.example"], "a.b-c.site.example", False),
    (["site.example"], "a-b.site.example", False),
    (["*.other.example"], "a-b.site.example", False),
    (["*.example"], "a-b.site.example", False),
    (["*.example"], "a-b.example", False),
    (["a.site.example"], "a-b.site.example", False),
    (["127.0.0.1"], "a-b.site.example", False),
]


def is_for(authority: trustme.CA, ours: ssl.SSLContext, names: list[str], host: str) -> bool:
    """Shake hands with a site that has a certificate for these names; tell whether that is one for the host."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(theirs)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server, tls = theirs.wrap_bio(incoming, outgoing, server_side=True), Tls(ours, host)
    while True:
        try:
            if tls.shake():
                return True
        except ssl.SSLCertVerificationError as error:
            if "mismatch" not in error.verify_message or host not in error.verify_message:
                raise
            return False
        incoming.write(tls.to_send())
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
        tls.receive(memoryview(outgoing.read()))


@pytest.mark.parametrize(("names", "host", "fits"), NAMES)
def test_an_underscore_changes_nothing(names: list[str], host: str, fits: bool) -> None:
    """What OpenSSL says of a name with a hyphen is said of one with an underscore."""
    authority, usual, own = trustme.CA(), context(), context_without_names()
    for each in (usual, own):
        authority.configure_trust(each)
    assert is_for(authority, usual, names, host) == fits
    assert is_for(authority, own, names, host) == fits
    assert is_for(authority, own, names, host.replace("-", "_")) == fits


def test_whose_authority_is_not_trusted_is_refused_all_the_same() -> None:
    """The name alone is looked at here."""
    own = context_without_names()
    assert own.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        is_for(trustme.CA(), own, ["*.site.example"], "a_b.site.example")
