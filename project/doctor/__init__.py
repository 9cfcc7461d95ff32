"""`manage.py doctor`: what is wrong with this installation, one sentence for each check, and what to do about it.

A *theme* is a chapter of the report: a module of `themes`, whose pure functions decide and make the sentences, and
whose `checks` say what is asked. `runner` asks one check after the other, none for longer than its time limit. The
command changes nothing, and connects only to what the settings name.
"""
