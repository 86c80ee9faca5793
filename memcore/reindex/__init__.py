"""A collection replaced while agents go on reading and writing: ``service.py`` is the whole way."""
