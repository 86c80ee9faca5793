"""The demo: an invented company's agents, eight months of their memories, and their first run under memtend."""
