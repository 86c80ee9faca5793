"""An agent's memory in eight lines: run it beside `memtend up`."""

from memcore import Memory

with Memory.from_environment() as memory:  # finds the stack that `memtend up` started
    memory.store("oncall", "The payment queue pages at 500 messages.", wait=True)
    for found in memory.search("oncall", "when does payments page?", limit=3):
        print(f"{found.relevance_score:.3f}  {found.content}")
