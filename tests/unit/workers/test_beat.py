from pathlib import Path

from memcore.config.settings import Settings
from workers.beat import schedule


def test_beat_knows_four_entries_whatever_the_number_of_agents() -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url="sqlite:////x", qdrant_url="http://127.0.0.1:2",
        home=Path("/nowhere"), tick_seconds=4, sweep_seconds=6,
    )  # fmt: skip
    entries = schedule(settings)
    assert {name: entry["schedule"].run_every.total_seconds() for name, entry in entries.items()} == {
        "memory.control.tick": 4,
        "memory.control.sweep": 6,
        "memory.control.canary": 60,
        "memory.control.expire": 3600,
    }
    for name, entry in entries.items():
        assert entry["task"] == name
        assert entry["options"]["queue"] == "memory.control"
        # a stopped worker finds no backlog: the next entry does the work of those that waited
        seconds = entry["schedule"].run_every.total_seconds()
        assert seconds < entry["options"]["expires"] <= 2 * seconds
