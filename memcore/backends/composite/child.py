"""What a composite asks of the backends that it is made of."""

from typing import Protocol, runtime_checkable

from memcore.backends.protocol import BatchBackend, MemoryBackend, MemoryCapabilities


@runtime_checkable
class Child(MemoryBackend, BatchBackend, MemoryCapabilities, Protocol):
    """A backend with both protocols that says what it can."""
