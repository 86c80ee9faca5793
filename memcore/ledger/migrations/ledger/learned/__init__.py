"""Revisions of what is learned from: tasks of agents, and questions that were asked."""
