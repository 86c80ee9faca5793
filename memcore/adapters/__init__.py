"""Memories in the form that agent frameworks expect: one module for each, which needs that framework installed.

Each takes a ``Memory``, or what ``Memory.connect`` returns, and the id of one agent. Calls from coroutines run in
threads; no event loop is held up.
"""
