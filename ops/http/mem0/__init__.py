"""What mem0's clients send, and the answers that they understand; ``ops/http/routes/mem0.py`` has the paths."""
