"""`manage.py doctor`: what is wrong with this installation, one sentence for each check, and what to do about it.

A *theme* is a chapter of the report, and a module of `themes`. The pure functions of the module make the verdicts, and
its function `checks` returns the checks. `runner` runs one check after the other, each within its time limit. The
command changes nothing, and connects only to the servers that the settings name.
"""
