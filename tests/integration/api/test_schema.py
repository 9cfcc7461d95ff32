"""The OpenAPI document says what the API does: schemathesis sends what it allows, and what it forbids."""

import os
from typing import Any

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, settings

from tests.programs import World, token
from weir.api.v1 import api

AT_LENGTH = bool(os.environ.get("WEIR_FAULTS"))
EXAMPLES = 300 if AT_LENGTH else 5
# What only the domain can judge, such as whether a text is a rate, is refused with 422 though the document allows it.
config = schemathesis.Config.from_dict(
    {"checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "412", "422", "428"]}}}
)
schema = schemathesis.openapi.from_wsgi("/api/openapi.json", get_wsgi_application(), config=config)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not AT_LENGTH,
    suppress_health_check=[*HealthCheck],
)
def test_what_the_document_says_holds(case: Any, secret: str) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def secret(world: World) -> str:  # noqa: ARG001  made in it
    return token()


def test_the_document_is_openapi_3_1() -> None:
    document = api.get_openapi_schema()
    assert document["openapi"] == "3.1.0"
