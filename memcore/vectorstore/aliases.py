"""Aliases: other names for collections, changed together or not at all."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
from qdrant_client.http import models as rest

from memcore.vectorstore.durable import write_file
from memcore.vectorstore.refusal import BadRequestError, ConflictError, NotFoundError


class Aliases:
    """The aliases of a data folder, kept in one file.

    Args:
        path: the file; missing means none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._targets: Mapping[str, str] = orjson.loads(path.read_bytes()) if path.exists() else {}

    def resolve(self, name: str) -> str:
        """Return the collection that a name stands for; a name that is no alias stands for itself."""
        return self._targets.get(name, name)

    def listed(self) -> list[tuple[str, str]]:
        """Return every alias with its collection, by alias."""
        return sorted(self._targets.items())

    def drop_target(self, collection: str) -> None:
        """Forget the aliases of a collection that is being deleted."""
        kept = {alias: target for alias, target in self._targets.items() if target != collection}
        if kept != self._targets:
            self._keep(kept)

    def change(self, actions: list[Any], *, exists: Callable[[str], bool]) -> None:
        """Apply actions in order; the new state appears in one step, or an action is refused and none is applied.

        Raises:
            NotFoundError: a collection or alias is missing.
            ConflictError: a collection has the alias's name.
        """
        targets = dict(self._targets)
        for action in actions:
            match action:
                case rest.CreateAliasOperation():
                    alias, target = action.create_alias.alias_name, action.create_alias.collection_name
                    if not exists(target):
                        raise NotFoundError.collection(target)
                    _refuse_taken(alias, exists)
                    targets[alias] = target
                case rest.RenameAliasOperation():
                    old, new = action.rename_alias.old_alias_name, action.rename_alias.new_alias_name
                    if old not in targets:
                        raise NotFoundError(f"Not found: Alias {old} does not exists!")
                    _refuse_taken(new, exists)
                    targets[new] = targets.pop(old)
                case rest.DeleteAliasOperation():
                    targets.pop(action.delete_alias.alias_name, None)
                case _:
                    raise BadRequestError("Format error in JSON body: actions: an alias action is expected")
        self._keep(targets)

    def _keep(self, targets: Mapping[str, str]) -> None:
        write_file(self._path, orjson.dumps(targets))
        self._targets = targets


def _refuse_taken(alias: str, exists: Callable[[str], bool]) -> None:
    if exists(alias):
        raise ConflictError(f"Wrong input: Collection `{alias}` already exists!")
