"""Memories of other systems as records of an import: ``importing`` is the way in, each other module reads one system.

A source is read in a stream: what it holds may be larger than the memory of this machine.
"""
