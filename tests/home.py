"""Loaded before Django's settings: the tests have embedded servers of their own, in `.weir/test`.

WEIR_TEST_HOME names another folder, for a second test run at the same time.
"""

import os
from pathlib import Path

HOME = Path(os.environ.get("WEIR_TEST_HOME") or Path(__file__).resolve().parent.parent / ".weir" / "test")
HOME /= os.environ.get("PYTEST_XDIST_WORKER", "")  # each of several at once has servers of its own
os.environ["WEIR_HOME"] = str(HOME)
# A request that no test asked for would be counted; tests of robots.txt turn it on.
os.environ["WEIR_OBEY_ROBOTS"] = "false"
os.environ["DJANGO_SECRET_KEY"] = "a key of the tests"  # noqa: S105  the placeholder is refused beside a DATABASE_URL
for variable in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL"):
    os.environ[variable] = ""  # empty, not absent: a developer's .env file must not fill it in
