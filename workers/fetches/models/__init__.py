"""The models of fetches: Fetch, its batch and its bodies, what is known of robots.txt files, and access tokens."""

from weir.workers.fetches.models.access_token import AccessToken
from weir.workers.fetches.models.batch import LONGEST_BATCH_NAME, Batch, BatchChange
from weir.workers.fetches.models.bodies import (
    BodyFile,
    BodyGone,
    BodyKeeping,
    BodyUnreachable,
    FetchBody,
    KeptBody,
    ReleasedBody,
    RequestBody,
)
from weir.workers.fetches.models.fetch import HIGHEST_PRIORITY, KEPT, NO_HEADERS, URL_KEY, Fetch, FetchQuerySet
from weir.workers.fetches.models.robots_file import RobotsFile, RobotsState
from weir.workers.fetches.models.states import ACTIVE, ASKED_FOR, FINAL, HELD, FetchState

__all__ = [
    "ACTIVE",
    "ASKED_FOR",
    "FINAL",
    "HELD",
    "HIGHEST_PRIORITY",
    "KEPT",
    "LONGEST_BATCH_NAME",
    "NO_HEADERS",
    "URL_KEY",
    "AccessToken",
    "Batch",
    "BatchChange",
    "BodyFile",
    "BodyGone",
    "BodyKeeping",
    "BodyUnreachable",
    "Fetch",
    "FetchBody",
    "FetchQuerySet",
    "FetchState",
    "KeptBody",
    "ReleasedBody",
    "RequestBody",
    "RobotsFile",
    "RobotsState",
]
