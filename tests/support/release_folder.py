"""``python -P release_folder.py MEMTEND ARCHIVE``: makes a data folder with a release's own commands, and packs it.

It made ``tests/fixtures/releases/*-folder.tar.xz``: of 0.1.0 with the commit 3a27aad, of 0.2.0 with a commit before
its release. The commands are those that all releases have.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

#: The agents of the folder; one run of each removes its working memories, and that of the second is undone.
AGENTS = ("ada", "bob")

#: Memories of each agent up to its limit, those above it, which its run archives, and working memories that it removes.
LIMIT, ABOVE, WORKING = 6, 2, 3

#: What all agents know: a fact, a publication, and proposals of which one was approved.
FACT, PUBLISHED = "Invoices are sent on the first Monday.", "The staging cluster restarts at noon."
PROPOSALS = ("Deploys need two reviewers.", "Backups are checked on Fridays.")

#: The journal lasts until long after the tests were written: a run of the folder can be undone.
POLICY = """\
memory:
  level: persistent
  consolidation:
    interval: never
    strategy: none
    max_memories_per_agent: 6
    journal_days: 3650
    retention:
      rules: [{category: working, retention_days: 1}]
    archival:
      enabled: true
      age_threshold_days: 1
"""

#: What a folder leaves out when it is packed: logs, sockets and what each start writes anew.
_LEFT_OUT = ("logs", "run")


def noted(agent_id: str, number: int) -> str:
    """Return the text of a memory that no rule of retention takes."""
    return f"{agent_id} notes that ferry {number} leaves at {number} past nine"


def carried(agent_id: str, number: int) -> str:
    """Return the text of a working memory."""
    return f"{agent_id} carries parcel {number} to the harbour"


def _records() -> Iterator[dict[str, str]]:
    old = (datetime.now(UTC) - timedelta(days=30)).isoformat()
    for agent_id in AGENTS:
        for category, text, count in (("semantic", noted, LIMIT + ABOVE), ("working", carried, WORKING)):
            for number in range(count):
                record = {"agent_id": agent_id, "category": category, "content": text(agent_id, number)}
                yield record | {"created_at": old}


@contextmanager
def _up(memtend: Path, home: Path) -> Iterator[None]:
    # Not in the folder of the caller, whose code the parts of 0.1.0 would import.
    with subprocess.Popen([memtend, "up", "--home", home], cwd=home, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                sys.stderr.write(line)
                if "memtend is up" in line:
                    break
            yield
        finally:
            process.terminate()
            process.wait(150)


def make(memtend: Path, home: Path) -> None:
    """Fill a folder: memories, runs, an undo, archive rows, a fact, a publication, approvals."""

    def run(*words: str, given: str = "") -> str:
        command = [str(memtend), *words, "--home", str(home)]
        return subprocess.run(command, cwd=home, input=given, check=True, stdout=subprocess.PIPE, text=True).stdout

    policy = home / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    os.environ["MEMTEND_POLICY_PATH"] = str(policy)
    with _up(memtend, home):
        run("import", "-", given="".join(f"{json.dumps(record)}\n" for record in _records()))
        for agent_id in AGENTS:
            run("maintain", agent_id, "--allow-large")
        (done,) = json.loads(run("runs", "list", "--agent", AGENTS[1], "--json"))
        run("runs", "undo", done["run_id"])
        run("org", "write", FACT, "--by", "Ida")
        run("shared", "publish", AGENTS[0], PUBLISHED)
        for text in PROPOSALS:
            run("approvals", "propose", "--text", text, "--by", "Ida", "--title", "A rule")
        newest, *_ = json.loads(run("approvals", "list", "--json"))
        run("approvals", "approve", newest["id"], "--by", "Max")


def pack(home: Path, archive: Path) -> None:
    """Pack the folder without what each start writes anew."""

    def included(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if set(Path(member.name).parts) & set(_LEFT_OUT) or not (member.isfile() or member.isdir()):
            return None
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz") as packed:
        packed.add(home, ".", filter=included)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        make(Path(sys.argv[1]), Path(folder))
        pack(Path(folder), Path(sys.argv[2]))
