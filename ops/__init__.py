"""Operating memtend: the command line and Flower."""
