"""The pages of docs/reference that follow from the code: ``make reference`` writes them anew."""
