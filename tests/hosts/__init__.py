"""Projects that use Weir, as their teams write them, with the tests of these teams.

Not Weir's own tests, and not found by pytest: tests/integration/integrate runs them, each in a process of its own.
"""
