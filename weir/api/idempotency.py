"""Idempotency-Key: a program that got no answer may repeat its request, which is carried out only once.

    return once(request, key, answer=lambda: (201, Notified(written=3)))

1. The token's key is locked until the transaction ends. If another request holds the lock: 409, in progress.
2. If an answer is stored for the key, the same request gets this answer again; another request gets 422.
3. Otherwise one transaction carries out the request and stores its answer, so that neither exists without the other.
   If the process is killed before the commit, nothing was done; after the commit, the answer is stored.

No answer is stored for a refused request: if the request is repeated, it is judged anew. Answers are kept for a day.
"""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel

from weir.api.access import token_of
from weir.api.http.bodies import JSON
from weir.api.http.problems import IN_PROGRESS, OTHER_REQUEST, Problem
from weir.api.models import KeptAnswer
from weir.api.tokens.models import Token
from weir.postgres import batches
from weir.postgres.statements import Statement

KEPT: Final = timedelta(days=1)
BATCH: Final = 1_000
PURGE_WITHIN_S: Final = 20.0
AGAIN: Final = "Idempotent-Replayed"  # the header of an answer that is given again


PURGE = Statement("purge", returns=int, commits=True)
LOCK_KEY = Statement("lock_key", returns=bool, commits=False)


def once(request: HttpRequest, key: str, answer: Callable[[], tuple[int, BaseModel]]) -> HttpResponse:
    """Respond with the status and the body that `answer` returns, or that it returned for this key before.

    `answer` is called in a transaction of its own. Without a key, it is called each time. Raises Problem, and the
    errors of `answer`.
    """
    with transaction.atomic(durable=True):
        if not key:
            return _response(*_written(answer))
        token = token_of(request)
        _lock(token, key)
        kept = KeptAnswer.objects.filter(token=token, key=key, created_at__gt=Now() - KEPT).first()
        request_hash = _hash_of(request)
        if kept is None:
            status, body = _written(answer)
            values = {"request_hash": request_hash, "status": status, "body": body, "created_at": Now()}
            KeptAnswer.objects.update_or_create(token=token, key=key, defaults=values)  # replaces an old one
            return _response(status, body)
    if kept.request_hash != request_hash:
        raise Problem(OTHER_REQUEST, "This Idempotency-Key came with another request before.")
    response = _response(kept.status, kept.body)
    response.headers[AGAIN] = "true"
    return response


def purge() -> int:
    """Delete the answers that are older than a day, in short batches; returns how many were deleted."""
    return batches.delete(PURGE, kept=KEPT, batch=BATCH, within_s=PURGE_WITHIN_S)


def _lock(token: Token, key: str) -> None:
    digest = hashlib.sha256(f"idempotency {token.pk} {key}".encode()).digest()
    number = int.from_bytes(digest[:8], signed=True)
    [is_ours] = LOCK_KEY(key=number)
    if not is_ours:
        raise Problem(IN_PROGRESS, "The first request with this key has not ended yet.")


def _hash_of(request: HttpRequest) -> str:
    of = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    of.update(request.body)
    return of.hexdigest()


def _written(answer: Callable[[], tuple[int, BaseModel]]) -> tuple[int, str]:
    status, body = answer()
    return status, body.model_dump_json()


def _response(status: int, body: str) -> HttpResponse:
    return HttpResponse(body, status=status, content_type=f"{JSON}; charset=utf-8")
