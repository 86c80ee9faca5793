"""The program ``workers.stack.migration``: migrates the databases that its standard input names, for the supervisor.

It is a process of its own because its libraries take 40 MB, which would stay with the supervisor as long as that runs;
and it works while the launcher imports what the parts share.
"""

import json
import subprocess
import sys
from collections.abc import Mapping

from memcore.config.settings import Settings
from memcore.errors import (
    MemoryConfigError,
    MemoryConnectionError,
    MemoryDiskFullError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryStoreError,
)
from memcore.operational import sentence_of
from memcore.programs import program_argv

#: The errors that are raised again as what they are, those first that are a kind of another.
_KINDS: Mapping[str, type[MemoryError]] = {
    each.__name__: each for each in (MemoryDiskFullError, MemoryConfigError, MemoryConnectionError, MemoryStoreError)
}


def migrate_apart(settings: Settings, env: Mapping[str, str]) -> None:
    """Create or upgrade every table of an installation, as ``migrate_installation`` does, in another process.

    Raises as that; MemoryStoreError for a defect, whose traceback is on standard error.
    """
    done = subprocess.run(
        program_argv("workers.stack.migration"),
        input=json.dumps(settings.with_secrets()),
        env=dict(env),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        # Ctrl-C is for the supervisor, which then starts nothing more.
        start_new_session=True,
    )
    if done.returncode == 0:
        return
    try:
        reported = json.loads(done.stdout)
    except ValueError:
        raise MemoryStoreError(f"the databases were not migrated (exit code {done.returncode})") from None
    raise _KINDS[reported["kind"]](reported["sentence"])


def main() -> int:
    """Migrate; print what an operator can mend as JSON, and return the exit code."""
    # The supervisor imports this module, too, and must not load alembic.
    from memcore.ledger.migrate import migrate_installation  # noqa: PLC0415  # see above

    settings = Settings.model_validate(json.load(sys.stdin))
    try:
        migrate_installation(settings)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        kind = next((name for name, each in _KINDS.items() if isinstance(error, each)), MemoryStoreError.__name__)
        sys.stdout.write(json.dumps({"kind": kind, "sentence": sentence}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
