"""A language model that is none: a server of its own that speaks OpenAI's chat completions, for tests and the demo.

It knows the protocol and no language: it says keywords of what it is shown, and lessons as sentences with gaps, filled
with the facts of the question. The same question has the same answer. It misbehaves as it is told, and remembers every
request and every bill.
"""
