"""Requests made up from the description of the service: no server error, no answer that is not described.

Every operation each day, with valid requests or with invalid ones, three of them; in a soak with 200 of both.
"""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from probing import operations
from recollect.catalogue import OPERATIONS
from recollect.interfaces.http.app import PREFIX, Service, build
from recollect.settings import ServerSettings
from seeds import SOAK, some

EXAMPLES = 200 if SOAK else 3
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def schema(world: Any) -> Any:
    service = Service(
        world.core, ServerSettings(rate_per_minute=10**9, most_body_bytes=1 << 20, hosts=["testserver"]), "mine"
    )
    yield schemathesis.openapi.from_asgi("/openapi.json", build(service))
    service.close()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name in sorted(one.name for one in operations())
        for mode in some(1, [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], f"made-up requests of {name}")
    ],
)
def test_made_up_requests_are_answered_as_described(name: str, mode: GenerationMode, world: Any, schema: Any) -> None:
    method, _, path = OPERATIONS[name].route.partition(" ")
    key = world.key("mine")

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=schema[PREFIX + path][method].as_strategy(generation_mode=mode))
    def probe(case: Case[Any]) -> None:
        case.call_and_validate(headers={"authorization": f"Bearer {key}"}, checks=CHECKS)

    probe()
