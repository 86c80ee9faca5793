"""Lessons: what an execution teaches, as procedural memories that agents find and as skill folders that people read."""
