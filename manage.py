#!/usr/bin/env python
"""Run Weir's commands: `python manage.py help` lists them."""

import os
import sys

from django.core.management import execute_from_command_line

from project.errors import in_one_sentence

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    with in_one_sentence(sys.argv):
        execute_from_command_line(sys.argv)
