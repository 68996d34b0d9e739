"""Whatever a client makes of the OpenAPI description, the server makes no mistake."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance

from rotta.serve import Service, load_model, serving

ROUTES = 13


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    with serving(Service(load_model("digits"), store=folder / "state.sqlite")) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


def attack(schema: Any, examples: int) -> int:
    """How many operations were tried."""
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            case.call_and_validate(checks=[not_a_server_error, response_schema_conformance])

        ask()
    return len(operations)


def test_a_few_of_everything(schema: Any) -> None:
    assert attack(schema, 8) == ROUTES


@pytest.mark.slow
def test_many_of_everything(schema: Any) -> None:
    assert attack(schema, 500) == ROUTES
