"""What a test needs of a project's settings, and does not have with each of the ordinary set-ups (tests/setups).

The marks look at the settings, not at the name of the set-up: set-ups can be combined.
"""

import pytest
from django.db import connections

_OF_WEIR = connections.settings["default"]

IS_POOLED = bool(_OF_WEIR["OPTIONS"].get("pool"))
POOL_SPEAKS_FIRST = "the pool's logger speaks first, and the sentence is that of its time-out"

needs_migrations = pytest.mark.skipif(not _OF_WEIR["TEST"]["MIGRATE"], reason="the tables are made without migrations")
needs_no_pool = pytest.mark.skipif(IS_POOLED, reason=POOL_SPEAKS_FIRST)
needs_own_sessions = pytest.mark.skipif(
    IS_POOLED, reason="a pool keeps the sessions that the test ends, counts or forks with"
)
needs_async_views = pytest.mark.skipif(
    any(configured["ATOMIC_REQUESTS"] for configured in connections.settings.values()),
    reason="Django refuses an async view where requests have transactions",
)
