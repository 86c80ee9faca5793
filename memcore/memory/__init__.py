"""The memories of an engine's agents, in one object: Memory, and AsyncMemory for engines with an event loop.

Writes go over the queue to the workers. Reads run in the engine's own process, with no queue between.
"""
