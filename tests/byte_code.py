"""Byte code, and the constants of packages, are written once, before the processes that run the tests read them.

In a fresh clone, several processes would otherwise compile the same sources at the same time. pytest has byte code of
its own for tests and plugins, whose assertions say what they compared; processes that tests start use the ordinary one.

Hypothesis tries the constants of packages as examples. Each process would otherwise parse all that it has imported.
"""

import compileall
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

from _pytest.assertion import rewrite
from hypothesis.errors import HypothesisSideeffectWarning
from hypothesis.internal import constants_ast

from project.checkout import CHECKOUT

OF_PLUGIN = ("notifications", "ratelimit", "weir", "workers")  # our distribution has these, and a pytest plugin
FOLDERS = (*OF_PLUGIN, "benchmarks", "demo", "project", "tests")
REWRITTEN = ("conftest.py", "test_*.py")
TOGETHER = 50  # sources that a process takes in one turn


def write() -> None:
    """Write what is missing or old, with one process for each processor."""
    if not sys.dont_write_bytecode:
        write_for(source for folder in FOLDERS for source in (CHECKOUT / folder).rglob("*.py"))


def write_for(sources: Iterable[Path]) -> None:
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(_write_one, sources, chunksize=TOGETHER))


def _write_one(source: Path) -> None:
    is_test = any(fnmatch(source.name, pattern) for pattern in REWRITTEN)
    if is_test or source.relative_to(CHECKOUT).parts[0] in OF_PLUGIN:
        _write_rewritten(source)
    if not is_test:
        compileall.compile_file(str(source), quiet=2)
    if constants_ast.is_local_module_file(str(source)):
        _write_constants(source)


def _write_rewritten(source: Path) -> None:
    folder = rewrite.get_cache_dir(source)
    written = folder / f"{source.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(source, written):
        return
    folder.mkdir(parents=True, exist_ok=True)
    hashed, code = rewrite._rewrite_test(source, None)  # type: ignore[arg-type]  # without a configuration it asks none
    new = written.with_name(f"{written.name}.{os.getpid()}")
    with new.open("wb") as file:
        rewrite._write_pyc_fp(file, hashed, code)
    new.replace(written)


def _write_constants(source: Path) -> None:
    """Let Hypothesis write the constants of this source: by its content, and only if they are not written yet."""
    module = ModuleType(source.stem)
    module.__file__ = str(source)
    with warnings.catch_warnings():  # its plugin has not heard yet that the session begins
        warnings.simplefilter("ignore", HypothesisSideeffectWarning)
        constants_ast.constants_from_module(module)
