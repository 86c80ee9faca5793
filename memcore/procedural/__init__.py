"""Lessons: stored as procedural memories for agents, and written as skill folders for people."""
