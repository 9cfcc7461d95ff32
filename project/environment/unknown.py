"""Variables that Weir does not read, although their names begin with WEIR_.

Weir does not refuse them: an operator may return to an older version, which does not know the newest variables. But
each process and each command reports them: a misspelt `WEIR_FETCH_ALLOW_NETS` would otherwise be ignored silently.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

import structlog

from project.environment.variables import Variables
from weir.conf.secrets import SECRET_PREFIX
from weir.conf.texts.suggestions import did_you_mean

log = structlog.get_logger(__name__)

PREFIX = "WEIR_"
# Variables that only tests and benchmarks read.
OF_TOOLS = frozenset(
    {
        "WEIR_BENCH_BACKLOG",
        "WEIR_BENCH_PROBES",
        "WEIR_BENCH_ROUNDS",
        "WEIR_BENCH_SECONDS",
        "WEIR_BENCH_SHARE",
        "WEIR_BENCH_WARM_UP",
        "WEIR_FAULTS",
        "WEIR_FAULTS_HOLD",
        "WEIR_FAULTS_KILLS",
        "WEIR_FAULTS_SECONDS",
        "WEIR_FAULTS_SEED",
        "WEIR_FAULTS_USERS",
        "WEIR_TEST_DATABASE",
        "WEIR_TEST_DATABASE_URL",
        "WEIR_TEST_EXIM",
        "WEIR_TEST_HOME",
        "WEIR_TEST_PGBOUNCER",
        "WEIR_TEST_REDIS_URL",
        "WEIR_TEST_ACTS",
        "WEIR_TEST_SKIPPED",
        "WEIR_WRITE_TABLES",
    }
)


class Unknown(NamedTuple):
    """A variable that is set, although Weir does not read it."""

    name: str
    sentence: str


def unknown(names: Iterable[str]) -> list[Unknown]:
    """Return those of the variables that begin with WEIR_ and are not read."""
    declared = Variables.model_fields.keys()
    return [
        Unknown(name, f"Weir reads no variable {name}.{_remedy(name)}")
        for name in sorted(set(names) - declared - OF_TOOLS)
        if name.upper().startswith(PREFIX) and not _is_secret(name)
    ]


def _is_secret(name: str) -> bool:
    """Return whether the variable is that of a secret; WEIR_SECRET_DIR is a misspelt WEIR_SECRETS_DIR."""
    return name.startswith(SECRET_PREFIX) and name != f"{SECRET_PREFIX}DIR"


def log_unknown() -> None:
    """Log the unknown variables of this process' environment, for processes that do not show Django's checks."""
    for name, sentence in unknown(os.environ):
        log.warning("variable_not_read", variable=name, error=sentence)


def _remedy(name: str) -> str:
    return did_you_mean(name.upper(), Variables.model_fields) or " Unset it: docs/reference/settings.md has all."
