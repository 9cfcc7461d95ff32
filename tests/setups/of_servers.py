"""What connections notice, together: pool, replica and cache_in_redis."""

from tests.setups.pool import *  # noqa: F403, I001  a project's settings are taken over so
from tests.setups.replica import *  # noqa: F403  which has the pool, too
from tests.setups.cache_in_redis import *  # noqa: F403  last: the others have its settings as they come
