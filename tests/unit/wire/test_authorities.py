"""Which certificates are valid, whatever Python's own default is."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization as written
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from weir.workers.fetches.fetcher.wire.tls import Tls, context

HOST = "site.example"


class Certificate(NamedTuple):
    """A certificate as small private authorities make them: without key identifiers."""

    made: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def of(cls, name: str, signer: "Certificate | None" = None, *, is_authority: bool = True) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(signer.made.subject if signer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        return cls(builder.sign(signer.key if signer else key, SHA256()), key)

    @property
    def pem(self) -> str:
        return self.made.public_bytes(written.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        form = written.PrivateFormat.PKCS8
        return self.key.private_bytes(written.Encoding.PEM, form, written.NoEncryption()).decode()


@pytest.fixture(params=["lenient", "strict"])
def _default(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Python's default as it was up to 3.12, or as it is since."""
    usual = ssl.create_default_context
    since_3_13 = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN

    def default(*, cadata: str | None) -> ssl.SSLContext:
        made = usual(cadata=cadata)
        made.verify_flags &= ~since_3_13
        if request.param == "strict":
            made.verify_flags |= since_3_13
        return made

    monkeypatch.setattr(ssl, "create_default_context", default)


def is_valid(folder: Path, shown: Certificate, *chain: Certificate, ca: str) -> bool:
    """Return whether the handshake with a site that shows these certificates ends well."""
    (file := folder / "site.pem").write_text(shown.key_pem + shown.pem + "".join(one.pem for one in chain))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    site, ours = theirs.wrap_bio(incoming, outgoing, server_side=True), Tls(context(ca), HOST)
    for _ in range(3):
        try:
            is_done = ours.shake()
        except ssl.SSLCertVerificationError:
            return False
        incoming.write(ours.to_send())
        with suppress(ssl.SSLWantReadError):
            site.do_handshake()
        if data := outgoing.read():
            ours.receive(memoryview(data))
    return is_done


@pytest.mark.usefixtures("_default")
def test_what_private_authorities_make_is_valid(tmp_path: Path) -> None:
    """With any version of Python, and also where only the authority in between is trusted."""
    root, other = Certificate.of("root"), Certificate.of("other root")
    between = Certificate.of("between", root)
    site, below = Certificate.of(HOST, root, is_authority=False), Certificate.of(HOST, between, is_authority=False)
    found = {
        "by the root": is_valid(tmp_path, site, ca=root.pem),
        "by another root": is_valid(tmp_path, site, ca=other.pem),
        "by the one in between": is_valid(tmp_path, below, between, ca=between.pem),
        "of another host": is_valid(tmp_path, Certificate.of("b.example", root, is_authority=False), ca=root.pem),
    }
    assert found == {
        "by the root": True, "by another root": False, "by the one in between": True, "of another host": False
    }  # fmt: skip
