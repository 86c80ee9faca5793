"""The demo: agents of an invented company, eight months of their memories, and their first maintenance run."""
