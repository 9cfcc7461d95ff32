"""The OpenAPI document says what the API does: schemathesis sends what it allows, and what it forbids."""

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.generation.hypothesis import builder
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema

from tests.programs import OPERATIONS, World, token
from weir.api.v1 import api

AT_LENGTH = bool(os.environ.get("WEIR_FAULTS"))
EXAMPLES = 300 if AT_LENGTH else 5
# How schemathesis marks what it cannot make a request of. It may skip the test then, which `parametrize` makes fail.
LEFT_OUT = (
    builder.InvalidHeadersExampleMark,
    builder.InvalidRegexMark,
    builder.MissingPathParameters,
    builder.NonSerializableMark,
    builder.UnsatisfiableExampleMark,
    builder.UnserializablePayloadMark,
)


@cache
def document() -> BaseSchema:
    """Return what schemathesis reads in the document.

    What only the domain can judge, such as whether a text is a rate, is refused with 422 though the document allows it.
    Slots are refused with 429 while a site has given out those of the next seconds.
    """
    load_all_checks()
    config = schemathesis.Config.from_dict(
        {
            "checks": {
                "positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "412", "422", "428", "429"]}
            }
        }
    )
    return schemathesis.openapi.from_wsgi("/api/openapi.json", get_wsgi_application(), config=config)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_the_document_says_holds(operation: str, secret: str) -> None:
    """The requests are made here: with schemathesis' `parametrize`, every process that collects tests makes them."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=not AT_LENGTH,
        suppress_health_check=[*HealthCheck],
    )
    def holds(case: Any) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {secret}"})

    chosen = document().include(operation_id=operation)
    [found] = get_all_tests(schema=chosen, test_func=holds, settings=None, given_kwargs=None)
    assert isinstance(found, Ok)
    _, with_requests = found.ok()
    try:
        with_requests()
    finally:
        assert not any(mark.is_set(with_requests) for mark in LEFT_OUT)


@pytest.fixture
def secret(world: World) -> str:  # noqa: ARG001  made in it
    return token()


@pytest.fixture(autouse=True)
def one_session() -> Iterator[None]:
    """Keep the session from one request to the next, as Django's own test client does: thousands would be opened."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_the_document_is_openapi_3_1() -> None:
    document = api.get_openapi_schema()
    assert document["openapi"] == "3.1.0"
