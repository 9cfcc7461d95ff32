"""Signatures of requests, by which sites recognise the installation (Web Bot Auth, an Internet-Draft of the IETF).

A signature covers who is asked (@authority), how (@method), for what (@path), and where the key is published
(Signature-Agent). It counts for a minute. So whoever sees one can at most send the same request again, for a minute.
"""

import base64
import os
import time
from typing import Final, NamedTuple

from weir.conf import settings
from weir.signatures.keys import SignatureKey, key
from weir.signatures.messages import SLOW_CLOCK_S, Component, sign

FIELDS: Final = frozenset({"signature", "signature-agent", "signature-input"})
LIFETIME_S: Final = 60
LABEL: Final = "weir"
NONCE: Final = 64  # bytes


class RequestSigner(NamedTuple):
    """Signs the requests of this installation."""

    key: SignatureKey
    agent: str  # the origin at which the keys are published
    names_label: bool  # the field Signature-Agent is a dictionary, and not a string

    def lines(self, method: str, authority: str, target: str) -> bytes:
        """Return the lines of the head that sign this request, from now on for LIFETIME_S seconds."""
        now = int(time.time())
        agent, parameter = f'"{self.agent}"', f';key="{LABEL}"' if self.names_label else ""
        signed = sign(
            self.key,
            LABEL,
            [
                Component('"@method"', method),
                Component('"@authority"', authority),
                Component('"@path"', target.partition("?")[0]),
                Component(f'"signature-agent"{parameter}', agent),
            ],
            {
                "created": now - SLOW_CLOCK_S,
                "expires": now + LIFETIME_S,
                "keyid": self.key.keyid,
                "alg": "ed25519",
                "nonce": base64.b64encode(os.urandom(NONCE)).decode(),
                "tag": "web-bot-auth",
            },
        )
        field = f"{LABEL}={agent}" if self.names_label else agent
        head = f"Signature-Agent: {field}\r\nSignature-Input: {signed.input}\r\nSignature: {signed.signature}\r\n"
        return head.encode("ascii")


def signer() -> RequestSigner | None:
    """Return what signs requests; None if the settings have none signed. Raises SecretUnusable."""
    if not (settings.WEIR_SIGNATURE_AGENT and settings.WEIR_SIGNATURE_KEYS):
        return None
    return RequestSigner(
        key(settings.WEIR_SIGNATURE_KEYS[0]),
        settings.WEIR_SIGNATURE_AGENT,
        settings.WEIR_SIGNATURE_AGENT_FORM == "dictionary",
    )
