"""What a URL with several servers says reaches each connection."""

import pytest
import redis
from pydantic import SecretStr
from pytest_django import Settings
from redis.connection import SSLConnection
from redis.sentinel import SentinelManagedSSLConnection

from weir.redis_link import places


def test_sentinels_and_their_redis_have_logins_of_their_own() -> None:
    """And TLS, a CA and time-outs in common."""
    [pool] = places.pools(
        "rediss+sentinel://user:w%2Frd@a.example,b.example:5/orders/2"
        "?ssl_ca_certs=/ca.pem&sentinel_username=guard&sentinel_password=other"
    )
    asked = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"]) for one in asked] == [("a.example", 26379), ("b.example", 5)]
    assert pool.connection_class is SentinelManagedSSLConnection
    assert pool.service_name == "orders"
    for options, username, password in [
        (pool.connection_kwargs, "user", "w/rd"),
        *((one, "guard", "other") for one in asked),
    ]:
        assert (options["username"], options["password"]) == (username, password)
        assert options["ssl_ca_certs"] == "/ca.pem"
        assert options["socket_timeout"] == places.ANSWER_TIMEOUT_S
        assert options["socket_connect_timeout"] == places.CONNECT_TIMEOUT_S
    assert pool.connection_kwargs["db"] == 2


def test_the_nodes_of_a_cluster_have_one_login() -> None:
    """Also those that MOVED names."""
    pools = places.pools("rediss+cluster://:word@a.example,[fd00::1]:7000?ssl_ca_certs=/ca.pem")
    assert [pool.connection_class for pool in pools] == [SSLConnection] * 2
    assert [
        (options["host"], options["port"], options["password"], options["ssl_ca_certs"], options["db"])
        for options in (pool.connection_kwargs for pool in pools)
    ] == [("a.example", 6379, "word", "/ca.pem", 0), ("fd00::1", 7000, "word", "/ca.pem", 0)]


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1/0", "redis+sentinel://127.0.0.1:1/orders", "redis+cluster://127.0.0.1:1"]
)
def test_no_number_of_refusals_keeps_a_process_from_asking_again(url: str, settings: Settings) -> None:
    """redis-py's pools make a hundred connections in all, if nobody says how many; here nothing listens."""
    settings.WEIR_REDIS_URL = SecretStr(url)
    places.forget()
    said = set()
    for _ in range(150):
        with pytest.raises(redis.ConnectionError) as refused:
            places.connect()
        said.add(str(refused.value))
    places.forget()
    assert not [text for text in said if "Too many" in text]
