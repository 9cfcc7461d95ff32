"""What differs between the versions of Celery that Weir takes."""

import ast
from pathlib import Path

import weir

ROOMS = Path(weir.__file__).parent


def test_no_class_of_celerys_is_subscripted_when_a_module_is_imported() -> None:
    """Celery's classes take type parameters since 5.6 only, and annotations are evaluated unless they are texts."""
    found = [
        f"{path}:{node.lineno}"
        for room in ("ratelimit", "notifications", "workers", "postgres", "ops", "api")
        for path in sorted((ROOMS / room).resolve().rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Task"
    ]
    assert not [place for place in found if not _is_local(place)]


def _is_local(place: str) -> bool:
    """Tell whether that line is an annotation of a local variable, which Python does not evaluate."""
    path, line = place.rsplit(":", 1)
    functions = [node for node in ast.walk(ast.parse(Path(path).read_text())) if isinstance(node, ast.FunctionDef)]
    return any(
        isinstance(statement, ast.AnnAssign) and statement.lineno == int(line)
        for function in functions
        for statement in ast.walk(function)
    )
