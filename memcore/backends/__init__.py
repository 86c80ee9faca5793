"""Where memories live: the protocols, one folder or file per backend, and the factory that builds one by name."""
