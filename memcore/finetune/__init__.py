"""Fine-tuning: the fleet's own texts train its embedder, stage by stage, each a function from files to files."""
