"""Delivery reports that others have collected, read by Weir: `python -m tests.collections`."""
