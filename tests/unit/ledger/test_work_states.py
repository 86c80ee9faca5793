"""The state machine of work items: each of its events is one that the product uses."""

import ast
from collections.abc import Iterator
from pathlib import Path

import memcore.ledger
from memcore.ledger.work_items import TRANSITIONS

#: Where an event is declared, and not used.
DECLARATIONS = {"WorkEvent", "TRANSITIONS"}


def _used(tree: ast.Module) -> Iterator[object]:
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if not {getattr(target, "id", None) for target in targets} & DECLARATIONS:
            yield from (node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))


def test_every_event_is_used() -> None:
    modules = Path(memcore.ledger.__path__[0]).rglob("*.py")
    used = {value for module in modules for value in _used(ast.parse(module.read_text()))}
    assert set(TRANSITIONS) - used == set()
