"""Conversation memory: what people say to agents, kept as facts, sessions and rules."""
