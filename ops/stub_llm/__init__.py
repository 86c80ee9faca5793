"""A language model that is none: a server of its own that speaks OpenAI's chat completions, for tests and the demo.

It answers the same question the same way, misbehaves as it is told, and remembers every request and every bill.
"""
