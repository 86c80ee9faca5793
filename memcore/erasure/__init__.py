"""Erasure: everything that is stored of an agent, or of a person, goes for good, and a receipt says so."""
