"""Weir, as a library: `weir.ratelimit`, `weir.notifications`, `weir.workers`, and the rooms above and below them.

The folders of these three are at the top of the repository. Links in this folder give them their names.
"""
