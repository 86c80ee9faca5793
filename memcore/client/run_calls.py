"""The calls of a client that ask for something to be done now, of which the ledger keeps a row."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from memcore.client.finetune_post import post_finetune, seal_finetune
from memcore.client.receipts import JobReceipt
from memcore.client.run_post import post_cycle, post_run
from memcore.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memcore.client.levels import Levels
    from memcore.client.sender import Admit, Sender
    from memcore.finetune.plan import FineTunePlan


class RunCalls(ABC):
    """What MemoryClient can ask for beside the schedule."""

    _company: str
    _clock: Clock
    _levels: "Levels | None"

    def maintain_now(self, agent_id: str, *, allow_large: bool = False) -> JobReceipt:
        """Ask for one agent's maintenance now, beside its schedule; the job's id is the run's id.

        Args:
            agent_id: whose memories.
            allow_large: release the brake on runs that would remove a large share of the memories.
        """
        return self._send_run(agent_id, allow_large=allow_large)

    def undo(self, agent_id: str, run_id: str) -> JobReceipt:
        """Ask for a run to be undone: what it removed comes back, what it made goes; the job has the undo's run id."""
        return self._send_run(agent_id, kind="undo", undo_of=run_id)

    def restore(self, agent_id: str, entry_id: str) -> JobReceipt:
        """Ask for a memory to be brought back from the archive as it was; the job's id is the run's id.

        The next nights leave it alone for a while, and the run can be undone. A memory that stands in the store already
        is left as it is: the job ends as skipped.

        Args:
            agent_id: whose memory.
            entry_id: the archival id, or the memory's own id.
        """
        return self._send_run(agent_id, kind="restore", scope_id=entry_id)

    def end_session(self, agent_id: str, session_id: str) -> JobReceipt:
        """Say that a session has ended: what was to live no longer goes, and `memtend runs undo` brings it back.

        At level session that is every memory stored in it before this call, also one that is still in the queue; at
        other levels the working ones. Ending twice, or what nobody knows, does nothing.
        """
        return self._send_run(agent_id, kind="end_session", scope_id=session_id)

    def end_project(self, agent_id: str, project_id: str) -> JobReceipt:
        """Say that a project has ended: as end_session, of every memory at the levels session and project."""
        return self._send_run(agent_id, kind="end_project", scope_id=project_id)

    def end_task(self, agent_id: str, task_id: str) -> JobReceipt:
        """Say that a task has ended: its working memories go, whatever the agent's level."""
        return self._send_run(agent_id, kind="end_task", scope_id=task_id)

    def evolve_now(self) -> JobReceipt:
        """Ask the skill evolver to look now, beside its schedule; the job's id is the cycle's id.

        It files proposals that wait for a person (docs/explanation/learning.md). While it is switched off, the cycle
        is empty.
        """
        return post_cycle(self._sender, company=self._company, now=self._clock(), admit=self._admit)

    def finetune(self, plan: "FineTunePlan | Mapping[str, Any]", *, request_id: str | None = None) -> JobReceipt:
        """Ask for the embedder to be trained on the fleet's own texts; the job's id is the run's id.

        A worker of the group finetune starts the run and carries it out (docs/how-to/fine-tune.md). A client that has
        only the broker's address sees no other run: the job then ends as skipped, and says so.

        Args:
            plan: what is trained on what, or its fields; its paths are those of the worker's machine.
            request_id: names this request; sending it again starts no second run. A new one when left out.

        Raises:
            MemoryInputError: a field breaks a limit; nothing was sent.
            FineTuneRunActiveError: another run has not ended; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; send again under the same request_id.
            MemoryQueueFullError: as for store.
        """
        payload = seal_finetune(plan, company=self._company, cause=request_id)
        if self._levels is not None:
            self._levels.check_finetune(payload.run_id)
        return post_finetune(self._sender, payload, admit=self._admit)

    @property
    @abstractmethod
    def _sender(self) -> "Sender": ...

    @property
    @abstractmethod
    def _admit(self) -> "Admit | None": ...

    def _send_run(self, agent_id: str, **wanted: Any) -> JobReceipt:
        now = self._clock()
        return post_run(self._sender, agent_id, company=self._company, now=now, admit=self._admit, **wanted)
