"""Ordinary set-ups of a Django project, each as a settings module: the suite must pass with each of them.

`make test ARGS="--ds tests.setups.atomic_requests tests/integration"` runs it so. A module changes what its first line
says, and nothing else.
"""
