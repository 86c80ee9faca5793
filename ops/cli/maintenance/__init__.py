"""Commands over maintenance runs, reindexes and fine-tuning."""
