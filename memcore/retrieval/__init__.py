"""Retrieval: from a question to the memories in a prompt; rank, filter, diversify, pack, fence."""
