"""Whom a certificate is for: names with an underscore are matched as all others are, though not by OpenSSL."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from weir.workers.fetches.fetcher.wire.tls import Tls, context, context_without_names

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


# Names that no authority should sign, byte by byte: they are for no host.
ODD = {
    "another behind NUL": b"a_b.site.example\0.evil.example",
    "no ASCII, but in small letters": "\N{KELVIN SIGN}_b.site.example".encode(),
    "no UTF-8": b"\xff_b.site.example",
    "a star in the middle": b"a_*.site.example",
    "two stars": b"*.*.example",
    "a star alone": b"*",
    "nothing before the dot": b".site.example",
    "a dot at the end": b"*.site.example.",
    "nothing": b"",
}


def is_for(authority: trustme.CA, ours: ssl.SSLContext, names: list[str], host: str) -> bool:
    """Shake hands with a site that has a certificate for these names; tell whether that is one for the host."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(theirs)
    return is_taken(theirs, ours, host)


def is_taken(theirs: ssl.SSLContext, ours: ssl.SSLContext, host: str) -> bool:
    """Shake hands with a site; tell whether its certificate is one for the host."""
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


def odd(name: bytes, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a site with a certificate for this name, and a context of ours that trusts it."""
    key, now = generate_private_key(SECP256R1()), datetime.now(UTC)
    itself = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a site")])
    names = b"\x82" + bytes([len(name)]) + name  # in DER: a list of one host
    named = x509.UnrecognizedExtension(x509.OID_SUBJECT_ALTERNATIVE_NAME, b"\x30" + bytes([len(names)]) + names)
    signed = (
        x509.CertificateBuilder(itself, itself, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(named, critical=False)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    file = folder / "site.pem"
    file.write_bytes(signed + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context_without_names()
    theirs.load_cert_chain(file)
    ours.load_verify_locations(cadata=signed.decode())
    return theirs, ours


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


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
def test_odd_names_are_for_no_host(name: bytes, tmp_path: Path) -> None:
    """What cannot be read is told as a name that does not fit, too; a usual name is read all the same."""
    assert not any(is_taken(*odd(name, tmp_path), host) for host in ("a_b.site.example", "k_b.site.example"))
    assert is_taken(*odd(b"a_b.site.example", tmp_path), "a_b.site.example")
