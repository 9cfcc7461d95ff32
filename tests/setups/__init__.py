"""Ordinary set-ups of a Django project, each as a settings module: the suite must pass with each of them.

`make test ARGS="--ds tests.setups.atomic_requests tests/integration"` runs it so. A module changes what its first line
says, and nothing else. Of seven, two together do for six: of_requests and of_servers; no_migrations stays by itself,
as without migrations the tests of them are skipped.

A test that does not hold with a set-up is skipped where the settings say so (tests/set_up.py).
"""
