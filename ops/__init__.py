"""How people and programs operate memtend: the command line, Flower, the demo."""
