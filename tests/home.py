"""Loaded before Django's settings: the tests have embedded servers of their own, in `.weir/test`.

WEIR_TEST_HOME names another folder, for a second test run at the same time. WEIR_TEST_DATABASE_URL and
WEIR_TEST_REDIS_URL name servers that run already. In PostgreSQL the tests make databases of their own, as a superuser;
in Redis they delete what is in the database, and each of several test processes takes another one, the next.
"""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "")  # "gw0" and so on, if several run together
HOME = Path(os.environ.get("WEIR_TEST_HOME") or Path(__file__).resolve().parent.parent / ".weir" / "test")
HOME /= PROCESS  # each process of several has servers of its own


def _redis_of_process(url: str) -> str:
    """Return the URL with the database of this process: the one named, plus the number of the process."""
    if not url:
        return ""
    parts, place = urlsplit(url), int(PROCESS.removeprefix("gw") or 0)
    if parts.scheme == "unix":
        named = re.search(r"(?:^|&)db=([0-9]+)", parts.query)
        return parts._replace(query=f"db={int(named[1] if named else 0) + place}").geturl()
    return parts._replace(path=f"/{int(parts.path.strip('/') or 0) + place}").geturl()


DATABASE_URL = os.environ.get("WEIR_TEST_DATABASE_URL", "")
REDIS_URL = _redis_of_process(os.environ.get("WEIR_TEST_REDIS_URL", ""))
os.environ["WEIR_HOME"] = str(HOME)
# A request that no test asked for would be counted; tests of robots.txt turn it on.
os.environ["WEIR_OBEY_ROBOTS"] = "false"
os.environ["DJANGO_SECRET_KEY"] = "a key of the tests"  # noqa: S105  the placeholder is refused beside a DATABASE_URL
# Empty, not absent, if the embedded servers are meant: a developer's .env file must not fill them in.
os.environ["DATABASE_URL"], os.environ["REDIS_URL"], os.environ["CELERY_BROKER_URL"] = DATABASE_URL, REDIS_URL, ""
