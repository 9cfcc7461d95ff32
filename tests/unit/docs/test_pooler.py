"""The page on poolers has what Weir would set by itself, had it a session."""

import re

from tests.acceptance.pooler import poolers
from weir.postgres import sessions


def test_the_role_gets_each_setting_that_a_session_would_have() -> None:
    """None is missing, and the limits of TCP are the same."""
    stated = dict(poolers.role_settings())

    assert set(stated) == set(re.findall(r"set_config\('(\w+)'", sessions._SET))
    assert {name: value for name, value in stated.items() if name.startswith("tcp_")} == {
        "tcp_keepalives_idle": f"{sessions.PROBE_AFTER_S}s",
        "tcp_keepalives_interval": f"{sessions.PROBE_EVERY_S}s",
        "tcp_keepalives_count": f"{sessions.PROBES}",
        "tcp_user_timeout": f"{sessions.SILENCE_S}s",
    }


def test_the_pooler_gives_a_silent_host_up_as_soon_as_weir_would() -> None:
    """By the names that PgBouncer has for it."""
    stated = dict(line.split(" = ") for line in poolers.pgbouncer_settings().splitlines())

    assert {name: int(value) for name, value in stated.items() if name.startswith("tcp_")} == {
        "tcp_keepidle": sessions.PROBE_AFTER_S,
        "tcp_keepintvl": sessions.PROBE_EVERY_S,
        "tcp_keepcnt": sessions.PROBES,
        "tcp_user_timeout": sessions.SILENCE_S * 1000,
    }
    assert int(stated["query_wait_timeout"]) == sessions.SILENCE_S
