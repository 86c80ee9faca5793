"""A stack whose vectors and history lie on servers outside it, as ``memory.storage`` says."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from support.command_line import CommandLine
from support.ledger_records import postgres_database
from support.running_stack import running_stack
from support.store_servers import store_server

pytestmark = [pytest.mark.acceptance, pytest.mark.service, pytest.mark.timeout(300)]

POLICY = """
memory:
  level: persistent
  storage: {vector_store: qdrant-external, history_store: postgresql}
"""

WORDS = "the spare key hangs behind the calendar"


def test_a_stack_keeps_vectors_and_history_where_the_policy_puts_them(tmp_path: Path, postgres: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "policy.yaml").write_text(POLICY)
    with store_server(tmp_path / "outside") as store, postgres_database(postgres) as history_url:
        outside = {
            "MEMTEND_QDRANT_URL": store.url,
            "MEMTEND_QDRANT_API_KEY": store.api_key,
            "MEMTEND_HISTORY_URL": history_url,
        }
        with running_stack(home, **outside) as stack:
            memtend = CommandLine(home=home)
            memtend.ok("store", "keeper", WORDS)
            (found,) = memtend.ok("search", "keeper", "spare key", "--json").value
            assert WORDS in found.values()
            assert "store-server" not in {part.name for part in stack.state.parts}

            client = store.client()
            assert client.count(f"memtend_{stack.settings.company}", exact=True).count == 1
            client.close()
        engine = create_engine(history_url)
        with engine.connect() as connection:
            assert list(connection.execute(text("SELECT event, new_memory FROM history"))) == [("ADD", WORDS)]
        engine.dispose()
    assert not (home / "data" / "history.db").exists()
