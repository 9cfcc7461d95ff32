"""Where the servers are that all tests share: embedded ones, or those that variables name (tests/home.py)."""

from urllib.parse import quote, urlsplit

from project import embedded
from tests.home import DATABASE_URL, HOME, REDIS_URL

PLACE = urlsplit(DATABASE_URL).netloc.rpartition("@")[2] or str(embedded.postgres_socket_dir(HOME))


def database_url(name: str, user: str = "") -> str:
    """Return the URL of a database of the tests' PostgreSQL; `user` has a password that need not be right."""
    if DATABASE_URL:
        parts = urlsplit(DATABASE_URL)
        netloc = f"{user}@{PLACE}" if user else parts.netloc
        return parts._replace(netloc=netloc, path=f"/{quote(name)}").geturl()
    return f"postgresql://{user or embedded.DATABASE_USER}@/{quote(name)}?host={PLACE}"  # libpq can read it, too


def redis_url() -> str:
    """Return the URL of the tests' Redis."""
    return REDIS_URL or f"unix://{embedded.valkey_socket(HOME)}"
