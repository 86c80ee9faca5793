"""The demo of fine-tuning: the fleet's handbook, what its agents noted, and questions that a person wrote."""
