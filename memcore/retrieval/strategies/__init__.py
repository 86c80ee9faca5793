"""Injection strategies with tools, and what they ask a model; ``factory`` makes the one that a policy names.

An engine takes ``create_injection_strategy``; a server that gives agents tools takes ``create_agent_tools``.
"""
