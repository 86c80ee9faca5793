"""Replaces a collection while agents go on reading and writing; ``service.py`` shows all steps."""
