"""What views and tables notice, together: atomic_requests, second_database and auto_field."""

from tests.setups.atomic_requests import *  # noqa: F403, I001  a project's settings are taken over so
from tests.setups.second_database import *  # noqa: F403  the same settings, changed by both
from tests.setups.auto_field import *  # noqa: F403  last: the others have the setting as it comes
