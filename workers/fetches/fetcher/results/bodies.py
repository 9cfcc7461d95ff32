"""Bodies, as store.sql gets them: a short one with its fetch, a longer one once for all fetches of the statement."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from weir.workers.fetches.bodies.keeping import ONCE_FROM
from weir.workers.fetches.jobs import FetchOutcome


class KeptOnce(NamedTuple):
    """A body that is kept once: its bytes, or its file in a storage."""

    content: bytes | None
    size: int
    storage: str = ""
    file: str = ""


def columns_of_bodies(outcomes: Sequence[FetchOutcome]) -> dict[str, list[object]]:
    """Return the arrays of the outcomes' bodies: of each outcome `content` or `sha256`, and all that are kept once."""
    contents: list[object] = []
    hashes: list[object] = []
    kept: dict[bytes, KeptOnce] = {}
    for outcome in outcomes:
        content, digest = outcome.content, None
        if (stored := outcome.stored_file) is not None:
            content, digest = None, stored.sha256
            kept.setdefault(digest, KeptOnce(None, stored.size, stored.storage, stored.file))
        elif content is not None and len(content) >= ONCE_FROM:
            digest = sha256(content).digest()
            kept.setdefault(digest, KeptOnce(content, len(content)))
            content = None
        contents.append(content)
        hashes.append(digest)
    return {
        "content": contents,
        "sha256": hashes,
        "kept_sha256": list(kept),
        "kept_content": [body.content for body in kept.values()],
        "kept_size": [body.size for body in kept.values()],
        "kept_storage": [body.storage for body in kept.values()],
        "kept_file": [body.file for body in kept.values()],
    }
