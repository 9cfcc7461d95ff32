"""A typed client that is generated from the OpenAPI document calls each operation of a real web process."""

import json
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests import programs
from tests.acceptance.web_process import Shared
from tests.programs import V1, Example
from weir.api.v1 import api

PACKAGE = "weir_client"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Generate the client, as docs/how-to/use-the-api.md says, and import it."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_text(json.dumps(api.get_openapi_schema()))
    generator = str(Path(sys.executable).parent / "openapi-python-client")
    line = [generator, "generate", "--path", str(document), "--meta", "none", "--output-path", str(folder / PACKAGE)]
    config = folder / "config.yml"
    config.write_text("post_hooks: []\n")  # by default it formats with a program that may be missing
    done = subprocess.run([*line, "--config", str(config)], check=True, capture_output=True, text=True)
    assert "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield import_module(PACKAGE)
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def operations() -> dict[str, tuple[str, str]]:
    """Return the path and the tag of each operation, by its id."""
    return {
        words["operationId"]: (path, words["tags"][0])
        for path, methods in api.get_openapi_schema()["paths"].items()
        for words in methods.values()
    }


def arguments(call: Any, template: str, example: Example) -> dict[str, Any]:
    """Return the example's values as arguments of the generated function."""
    types = typing.get_type_hints(call)
    path, query = urlsplit(V1 + example.path).path, urlsplit(example.path).query
    found = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", template), path)
    assert found is not None, (template, path)
    values: dict[str, Any] = {
        name: int(text) if types[name] is int else text for name, text in found.groupdict().items()
    }
    for name, [text] in parse_qs(query).items():
        enums: list[Any] = [of for of in typing.get_args(types[name]) if hasattr(of, "__members__")]
        values[name] = int(text) if text.isdecimal() else enums[0](text) if enums else text
    if state := re.search(r"state=(\w+)", query):
        values |= {"state": _state(types["state"], state[1])}
    for header, value in example.headers.items():
        values[header.lower().replace("-", "_")] = value
    if example.body is not None:
        values["body"] = types["body"].from_dict(example.body)
    return values


def _state(of: Any, text: str) -> Any:
    """Return a state as the type of the parameter has it: an enumeration, a list of one, or a text."""
    if typing.get_origin(of) is list:
        return [_state(typing.get_args(of)[0], text)]
    if hasattr(of, "__members__"):
        return of(text)
    for one in typing.get_args(of):
        if typing.get_origin(one) is list or hasattr(one, "__members__"):
            return _state(one, text)
    return text


def test_the_generated_client_calls_each_operation(shared_web: Shared, client: ModuleType) -> None:
    """Each has the stated status, and its answer is read into a class of its own."""
    world = programs.seed()
    to = client.AuthenticatedClient(base_url=shared_web.url, token=programs.token(), raise_on_unexpected_status=True)
    known = operations()
    found: dict[str, int] = {}
    for name, example in world.examples().items():
        template, tag = known[name]
        module = import_module(f"{PACKAGE}.api.{re.sub(r'[^a-z]+', '_', tag)}.{name}")
        answer = module.sync_detailed(client=to, **arguments(module.sync_detailed, template, example))
        found[name] = int(answer.status_code)
        if example.status < 204 and answer.content[:1] == b"{":
            assert answer.parsed.to_dict().keys() == json.loads(answer.content).keys()
    assert found == {name: example.status for name, example in world.examples().items()}
    print(f"{len(found)} operations were called by a generated client")


def test_the_generated_client_reads_problems(shared_web: Shared, client: ModuleType) -> None:
    """A refusal, too, becomes an object, with its kind."""
    to = client.AuthenticatedClient(base_url=shared_web.url, token=programs.token())
    answer = import_module(f"{PACKAGE}.api.fetches.get_fetch").sync(client=to, fetch_id=1)
    assert answer.type_ == "/api/problems/not-found"
