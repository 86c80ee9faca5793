"""Memory tests: questions to an agent's memory, and what it must and must not show for each.

``files`` reads the tests, ``running`` asks a Memory, ``report`` says what came of it; the tests are models.
"""
