"""Language models: providers, retries, budgets and checked answers. Input is fenced, output is checked."""
