"""Weir, as a library: one import name for all rooms."""
