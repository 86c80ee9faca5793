"""Memory tests: questions to an agent's memory, and what it must and must not show for each.

``files`` has the tests and reads them, ``running`` asks a Memory, ``report`` says what came of it.
"""
