"""The memory policy and the settings.

Import each name from the file of its concern (``memcore.config.retrieval.MemoryRetrievalConfig``): this package imports
nothing itself, so that a client that only needs ``settings`` does not pay for the policy.
"""
