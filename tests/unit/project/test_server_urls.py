"""What a server's URL says, as Django and libpq get it; what is wrong with one, without a word of it."""

import ssl
from typing import Any

from kombu.utils.url import parse_url

from project.environment import urls
from tests.cases import for_each
from weir.conf.texts import redis_urls as several

BARE = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": "orders",
    "USER": "",
    "PASSWORD": "",
    "HOST": "",
    "PORT": "",
    "OPTIONS": {},
}


DATABASE_URLS: list[tuple[str, dict[str, Any]]] = [
    ("postgresql:///orders", {}),
    ("psql://db.example/orders", {"HOST": "db.example"}),
    (
        "postgres://weir:word@db.example:5433/orders",
        {"USER": "weir", "PASSWORD": "word", "HOST": "db.example", "PORT": "5433"},
    ),
    ("pgsql://db.example/two%20words", {"HOST": "db.example", "NAME": "two words"}),
    ("postgresql://w%40:%2F%23+%25@h/orders", {"USER": "w@", "PASSWORD": "/#+%", "HOST": "h"}),
    ("postgresql://weir:#[@h:1/orders", {"USER": "weir", "PASSWORD": "#[", "HOST": "h", "PORT": "1"}),
    ("postgresql://[fd00::1]:5433/orders", {"HOST": "fd00::1", "PORT": "5433"}),
    ("postgresql:////run/postgresql/orders", {"HOST": "/run/postgresql"}),
    ("postgresql://weir@//run/postgresql/orders", {"USER": "weir", "HOST": "/run/postgresql"}),
    ("postgresql://%2Frun%2Fpostgresql/orders", {"HOST": "/run/postgresql"}),
    ("postgresql://a.example,b.example/orders", {"HOST": "a.example,b.example"}),
    ("postgresql://a:1,b:2/orders", {"HOST": "a,b", "PORT": "1,2"}),
    ("postgresql://a,[::1]:2/orders", {"HOST": "a,::1", "PORT": ",2"}),
    (
        "postgresql:///orders?sslmode=require&sslrootcert=/a%20b.pem&keepalives_idle=9&options=-c%20a%3Db&service=",
        {"OPTIONS": {"sslmode": "require", "sslrootcert": "/a b.pem", "keepalives_idle": 9, "options": "-c a=b"}},
    ),
    (
        "postgresql:///orders?conn_max_age=60&ATOMIC_REQUESTS=True&conn_health_checks=false&pool=true",
        {"CONN_MAX_AGE": 60, "ATOMIC_REQUESTS": True, "CONN_HEALTH_CHECKS": False, "OPTIONS": {"pool": True}},
    ),
    ("postgresql:///orders?conn_max_age=None", {"CONN_MAX_AGE": None}),
    ("postgresql:///orders?pool=False", {"OPTIONS": {"pool": False}}),
    ("postgresql:///?service=weir", {"NAME": "", "OPTIONS": {"service": "weir"}}),
]


def test_a_database_url_is_what_django_needs() -> None:
    """Each part is decoded; query parameters go to libpq, unless they are Django's own."""
    assert [url for url, _ in DATABASE_URLS if urls.malformed("DATABASE_URL", url)] == []
    assert {url: urls.database(url) for url, _ in DATABASE_URLS} == {url: BARE | it for url, it in DATABASE_URLS}


GOOD = [
    ("DATABASE_URL", "postgres://weir@db.example/orders"),
    ("DATABASE_URL", "postgresql:////var/run/postgresql/orders"),
    ("DATABASE_URL", "postgresql://weir:%2F%23@[fd00::1]:5433/orders?sslmode=require"),
    ("REDIS_URL", "redis://cache.example"),
    ("REDIS_URL", "rediss://user:word@cache.example:6380/2"),
    ("REDIS_URL", "rediss://:word@cache.example/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs=required"),
    ("REDIS_URL", "redis://cache.example/0?password="),
    ("REDIS_URL", "unix:///run/valkey.sock?db=1"),
    ("REDIS_URL", "redis+sentinel://user:word@a.example:26379,[fd00::1]/orders/2"),
    ("REDIS_URL", "rediss+sentinel://a.example/orders?sentinel_password=word&ssl_ca_certs=/ca.pem"),
    ("REDIS_URL", "redis+cluster://:word@a.example:6379,b.example"),
    ("REDIS_URL", "rediss+cluster://a.example/0"),
    ("CELERY_BROKER_URL", "amqp://user:word@mq.example:5672/vhost"),
    ("CELERY_BROKER_URL", "sentinel://a.example:26379;sentinel://b.example:26379"),
]


def test_good_urls_have_no_fault() -> None:
    """What can be used is never called malformed."""
    assert [(url, found) for variable, url in GOOD if (found := urls.malformed(variable, url))] == []


MALFORMED = [
    ("REDIS_URL", "redis://s3cret@h:6379/0", "is malformed (its password must stand behind a colon)"),
    ("CELERY_BROKER_URL", "redis://:a@h/0;rediss://s3cret@h/0", "is malformed (its password must stand behind a"),
    ("CELERY_BROKER_URL", "redis://:a@h:1/0;redis://:s3/cret@h:2/0", "is malformed ("),
    ("DATABASE_URL", "postgresql://weir:p@s3cret/x@h/orders", "is malformed (its host or port cannot be read;"),
    ("DATABASE_URL", "weir:s3cret@h/orders", "does not name a PostgreSQL database: "),
    ("DATABASE_URL", "//weir:s3cret@h/orders", "does not name a PostgreSQL database: "),
    ("DATABASE_URL", "mysql://weir:s3cret@h/orders", "does not name a PostgreSQL database: "),
    ("DATABASE_URL", "sqlite://weir:s3cret@h/orders", "does not name a PostgreSQL database: "),
    ("DATABASE_URL", "postgres", "does not name a PostgreSQL database: "),
    ("DATABASE_URL", "postgresql://weir:s3cret@h", "is malformed (it names no database)"),
    ("DATABASE_URL", "postgresql://weir:s3cret@h:port/orders", "is malformed (its host or port cannot be read;"),
    ("DATABASE_URL", "postgresql://weir:s3cret@h:65536/orders", "is malformed (its host or port cannot be read;"),
    ("DATABASE_URL", "postgresql://weir:s3cret@h:1:2/orders", "is malformed (its host or port cannot be read;"),
    ("DATABASE_URL", "postgresql://weir:s3cret@a,[b/orders", "is malformed (its host or port cannot be read;"),
    ("DATABASE_URL", "postgresql://weir:s3cret/x@h/orders", "is malformed (its host or port cannot be read;"),
    ("DATABASE_URL", "postgresql://weir:s3cret@h/orders?pool=1", "is malformed (its pool must be true or false;"),
    (
        "DATABASE_URL",
        "postgresql://weir:s3cret@h/orders?pool=none",
        "is malformed (its pool must be true or false; ",
    ),
    ("REDIS_URL", "s3cret@h", "is malformed (it must begin with redis://)"),
    ("REDIS_URL", ":s3cret@h", "is malformed (it must begin with redis://)"),
    ("REDIS_URL", "amqp://:s3cret@h", "is malformed (it must begin with redis://)"),
    ("REDIS_URL", "valkey://:s3cret@h/0", "is malformed (it must begin with redis://)"),
    ("REDIS_URL", "redis://:s3cret@h:port/0", "is malformed (its host or port cannot be read;"),
    ("REDIS_URL", "redis://:s3cret@[h/0", "is malformed (its host or port cannot be read;"),
    ("REDIS_URL", "redis://:s3cret@h/zero", "is malformed (what follows the last / must be a number)"),
    ("REDIS_URL", "redis://h/0?password=s3cret", "is malformed (what follows its ? cannot be used; a password"),
    ("REDIS_URL", "redis://h/0?s3cret=1", "is malformed (what follows its ? cannot be used; a password"),
    ("REDIS_URL", "redis://h/?db=s3cret", "is malformed (what follows its ? cannot be used; a password"),
    ("REDIS_URL", "unix:///run/valkey.sock?db=s3cret", "is malformed (what follows its ? cannot be used; a pass"),
    ("REDIS_URL", "rediss://h/0?ssl_cert_reqs=s3cret", "is malformed (what follows its ? cannot be used; a pass"),
    (
        "CELERY_BROKER_URL",
        "amqp://h;amqp://g/v?password=s3cret",
        "is malformed (what follows its ? cannot be used;",
    ),
    ("REDIS_URL", "redis+sentinel://:s3cret@h:26379", "is malformed (it must name the Sentinels' service"),
    ("REDIS_URL", "redis+sentinel://:s3cret@h:26379/orders/x", "is malformed (what follows the service must be"),
    ("REDIS_URL", "redis+sentinel://s3cret@h/orders", "is malformed (its password must stand behind a colon)"),
    ("REDIS_URL", "redis+sentinel://:s3cret@h:1,/orders", "is malformed (one of its hosts or ports cannot be"),
    ("REDIS_URL", "redis+sentinel://:s3cret@h:99999/orders", "is malformed (one of its hosts or ports cannot"),
    ("REDIS_URL", "redis+sentinel://:s3/cret@h:1/orders", "is malformed (one of its hosts or ports cannot be"),
    ("REDIS_URL", "redis+cluster://:s3cret@h,g/1", "is malformed (a cluster has no other database than 0)"),
    ("REDIS_URL", "redis+cluster://:s3cret@[h,g", "is malformed ("),
    ("REDIS_URL", "redis+other://:s3cret@h", "is malformed (it must begin with redis://)"),
    ("CELERY_BROKER_URL", "amqps://:s3cret@h;amqp://:s3cret@i", "is malformed (all its brokers must begin alike"),
    ("CELERY_BROKER_URL", "redis+cluster://:s3cret@h", "is malformed (no broker is spoken to by redis+cluster"),
    ("CELERY_BROKER_URL", "nothing:s3cret", "is malformed (it must begin with redis://)"),
    ("CELERY_BROKER_URL", "amqp:s3cret", "is malformed (it must begin with redis://)"),
]


def test_a_url_that_cannot_be_used_is_told_without_a_word_of_it() -> None:
    """The sentence names the variable, says what is wrong, and what to write."""
    wrong = []
    for variable, url, fault in MALFORMED:
        sentence = urls.malformed(variable, url) or ""
        kind = several.kind_of(url) if variable == "REDIS_URL" else ""
        says_what_to_write = f"write {several.EXAMPLES.get(kind, urls.EXAMPLES[variable])}" in sentence
        if not (sentence.startswith(f"{variable} {fault}") and says_what_to_write) or "s3cret" in sentence:
            wrong.append((variable, url, sentence))
    assert wrong == []


def test_every_spelling_of_a_password_is_a_secret() -> None:
    """As it is written, and decoded; in the query, too, and where the URL is malformed."""
    found = urls.secrets("postgresql://weir:a%2Fb@h/orders?password=c%20d", "redis://:e/f@h", "[g:h@i", "")
    assert set(found) >= {"a%2Fb", "a/b", "c d", "e/f"}


@for_each(
    "url",
    [
        "rediss://:s3cret@h/0",
        "REDISS://:s3cret@h/0",
        " rediss://:s3cret@h/0",
        "rediss://:s3cret@h/0?health_check_interval=5",
        "rediss://:s3cret@h/0?ssl_cert_reqs=",
        "rediss://:s3cret@h/0#ssl",
        "rediss://:ssl_cert_reqs=@h/0",
    ],
)
def test_a_broker_over_tls_is_verified_however_its_url_is_written(url: str) -> None:
    """Kombu takes these for TLS, too, and verifies only where the query says so."""
    assert parse_url(urls.with_verified_tls(url))["ssl"]["ssl_cert_reqs"] == ssl.CERT_REQUIRED


@for_each("url", ["rediss://h/0?ssl_cert_reqs=none", "redis://:rediss@h/0", "amqp://h"])
def test_what_a_url_says_of_tls_is_left_alone(url: str) -> None:
    """Whoever turns the verification off has it off; other transports know nothing of it."""
    assert urls.with_verified_tls(url) == url


@for_each(
    ("url", "broker", "options"),
    [
        ("redis://cache.example/1", "redis://cache.example/1", {}),
        ("unix:///a.sock?db=1;db=2&db=3", "redis+socket:///a.sock?virtual_host=1%3Bdb%3D2", {}),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock?virtual_host=0", {}),
        ("unix://:w%2Frd@/run/a b.sock?db=1", "redis+socket://:w%2Frd@/run/a%20b.sock?virtual_host=1", {}),
        ("unix:///a.sock?username=b%40&password=w%2Frd", "redis+socket://b%40:w%2Frd@/a.sock?virtual_host=0", {}),
        (
            "redis+sentinel://:w%2Frd@a.example,[fd00::1]:5/orders/2?sentinel_password=other",
            "sentinel://:w%2Frd@a.example:26379/2;sentinel://:w%2Frd@[fd00::1]:5/2",
            {"master_name": "orders", "sentinel_kwargs": urls.asking(2) | {"password": "other"}},
        ),
    ],
)
def test_celery_takes_the_same_servers_in_its_own_spelling(url: str, broker: str, options: dict[str, Any]) -> None:
    """Of one server, or of Sentinels."""
    assert urls.broker("", url) == broker
    assert urls.broker_options("", url) == options
    assert urls.broker("amqp://other", url) == "amqp://other"
    assert urls.broker_options("amqp://other", url) == {}
    assert urls.broker_options("sentinel://a;sentinel://b;sentinel://c", url) == {"sentinel_kwargs": urls.asking(3)}


@for_each("url", ["redis+cluster://a.example", "rediss+sentinel://a.example/orders"])
def test_where_celery_cannot_use_redis_it_wants_a_broker_of_its_own(url: str) -> None:
    """A sentence says so."""
    assert str(urls.refusal("", url)).startswith("CELERY_BROKER_URL must be set: ")
    assert urls.refusal("redis://broker.example", url) is None
