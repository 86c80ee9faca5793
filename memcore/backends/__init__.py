"""Memory backends: the protocols, one folder or file per backend, and the factory that builds one by name."""
