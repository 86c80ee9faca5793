"""What monitoring reads: figures that workers keep, counts of runs and work, and what servers of models are like."""
