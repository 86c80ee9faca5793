"""The one way in to fine-tuning, checkpoints and the removal of a memory, for whoever answers a person or a program."""
