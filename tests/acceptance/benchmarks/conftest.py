"""The Valkey that benchmarks of web processes are measured with."""

from tests.integration.conftest import valkey

__all__ = ["valkey"]
