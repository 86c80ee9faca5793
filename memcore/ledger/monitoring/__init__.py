"""What monitoring reads: figures that workers keep, and counts of runs and work."""
