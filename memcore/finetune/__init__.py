"""Fine-tuning: trains the fleet's embedder on its own texts, stage by stage; each stage maps files to files."""
