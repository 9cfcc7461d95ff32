"""The directory of keys: the page on which sites find the public keys of the installation (Web Bot Auth).

Each key signs the answer, for the authority of WEIR_SIGNATURE_AGENT, whatever host was asked. So nobody can publish the
keys as their own.
"""

import base64
import hashlib
import json
import time
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from weir.conf import settings
from weir.conf.secrets import SecretUnusable
from weir.logs.loggers import get_logger
from weir.signatures.keys import SignatureKey, keys
from weir.signatures.messages import SLOW_CLOCK_S, Component, sign

log = get_logger(__name__)

PATH: Final = ".well-known/http-message-signatures-directory"
MEDIA_TYPE: Final = "application/http-message-signatures-directory+json"
TAG: Final = "http-message-signatures-directory"
CACHED_S: Final = 3_600
LIFETIME_S: Final = 86_400  # of the signatures: longer than caches keep the answer


@login_not_required
@require_safe
def directory(request: HttpRequest) -> HttpResponse:  # noqa: ARG001  Django's signature
    """Answer 200 with the keys; 404 if requests are not signed; 503 if a key cannot be used.

    An answer without a key would mean that the key does not count any more; 503 says nothing about keys.
    """
    if not (settings.WEIR_SIGNATURE_AGENT and settings.WEIR_SIGNATURE_KEYS):
        raise Http404
    try:
        published = keys()
    except SecretUnusable as error:
        log.error("signature_key_unusable", error=str(error))  # noqa: TRY400  the sentence says all
        return HttpResponse("A key cannot be used; the log says why.\n", status=503, content_type="text/plain")
    return answer(published, settings.WEIR_SIGNATURE_AGENT, int(time.time()) - SLOW_CLOCK_S)


def answer(published: tuple[SignatureKey, ...], agent: str, created: int) -> HttpResponse:
    """Return the answer with these keys, which each of them signs."""
    body = json.dumps({"keys": [key.jwk for key in published]}).encode()
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    covered = (Component('"@authority";req', agent.removeprefix("https://")), Component('"content-digest"', digest))
    parameters: dict[str, int | str] = {
        "created": created,
        "expires": created + LIFETIME_S,
        "alg": "ed25519",
        "tag": TAG,
    }
    signed = [
        sign(key, f"key{number}", covered, {**parameters, "keyid": key.keyid})
        for number, key in enumerate(published, 1)
    ]
    headers = {
        "Cache-Control": f"public, max-age={CACHED_S}",
        "Content-Digest": digest,
        "Signature-Input": ", ".join(each.input for each in signed),
        "Signature": ", ".join(each.signature for each in signed),
    }
    return HttpResponse(body, content_type=MEDIA_TYPE, headers=headers)
