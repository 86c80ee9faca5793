"""What people said to agents: turns, sessions, and the facts, arcs and rules that are kept of them."""
