"""Commands over memories, agents and shared knowledge."""
