"""Records which functions of the product a piece of work enters, with ``sys.setprofile``.

``WALK_ROOT`` and ``WALK_FOLDER`` say which tree is traced and where records go. With both set, a process that imports
this module as its ``sitecustomize`` records each Celery task that it runs and each HTTP request that it answers.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

#: Folders of the product below the root.
PRODUCT = ("memcore", "ops", "scheduler", "tasks", "workers")

#: What a function is to the tracer.
_OTHER, _OURS, _TASK, _REQUEST = range(4)

#: Where Celery runs a task and uvicorn answers a request: the end of the file's name, and the function.
_EDGES = {
    ("celery/app/trace.py", "trace_task"): _TASK,
    ("uvicorn/protocols/http/httptools_impl.py", "run_asgi"): _REQUEST,
    ("uvicorn/protocols/http/h11_impl.py", "run_asgi"): _REQUEST,
}


class Record:
    """The calls of one piece of work, in their order.

    Attributes:
        calls: thread, file from the root, and function of each call; a coroutine is called when it goes on.
    """

    def __init__(self, kind: str, name: str, job_id: str = "") -> None:
        self.kind = kind
        self.name = name
        self.job_id = job_id
        self.thread = threading.get_ident()
        self.began = time.time()
        self.calls: list[tuple[int, str, str]] = []

    def has_part_in(self, thread: int) -> bool:
        """Tell whether a thread may work for this: the main thread of a pool of threads only fetches other jobs."""
        return thread == self.thread or thread != threading.main_thread().ident

    def line(self) -> str:
        """Return the record as a line of JSON, ended now."""
        return json.dumps({**vars(self), "ended": time.time()})


class Tracer:
    """Record the calls of the product while any record is open; one for the whole process.

    Args:
        root: the tree whose product is traced.
        folder: takes a file of lines for each process; None keeps nothing but what `begin` returns.
    """

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._root = f"{root}{os.sep}"
        self._folder = folder
        self._known: dict[CodeType, tuple[int, str]] = {}
        self._open: dict[int, Record] = {}

    def install(self) -> None:
        """Watch this thread and every thread that starts from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def begin(self, name: str) -> Record:
        """Open a record by hand; its list of calls is complete once `end` is called."""
        record = Record("call", name)
        self._open[id(record)] = record
        return record

    def end(self, record: Record) -> None:
        """Close a record that was opened by hand."""
        del self._open[id(record)]

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        known = self._known.get(code)
        if known is None:
            known = self._known[code] = self._classified(code)
        kind, file = known
        if kind == _OTHER:
            return
        if kind == _OURS:
            if event == "call" and self._open:
                thread = threading.get_ident()
                for record in tuple(self._open.values()):
                    if record.has_part_in(thread):
                        record.calls.append((thread, file, code.co_qualname))
        elif kind == _TASK:
            self._edge(event, frame, is_over=event == "return")
        else:
            self._edge(event, frame, is_over=frame.f_locals["self"].response_complete)

    def _edge(self, event: str, frame: FrameType, *, is_over: bool) -> None:
        if event == "call":
            if id(frame) not in self._open:
                self._open[id(frame)] = _record_of(frame)
        elif event == "return" and is_over:
            record = self._open.pop(id(frame), None)
            if record is not None and self._folder is not None:
                with (self._folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as target:
                    target.write(record.line() + "\n")

    def _classified(self, code: CodeType) -> tuple[int, str]:
        path = code.co_filename
        for (end, function), kind in _EDGES.items():
            if code.co_name == function and path.endswith(end):
                return kind, path
        place = path.removeprefix(self._root)
        # What a module does when it is imported is no step of the way.
        is_ours = place != path and place.partition(os.sep)[0] in PRODUCT and code.co_name != "<module>"
        return (_OURS, place) if is_ours else (_OTHER, path)


def _record_of(frame: FrameType) -> Record:
    local = frame.f_locals
    if "uuid" in local:
        return Record("task", local["task"].name, local["uuid"])
    scope = local["self"].scope
    return Record("request", f"{scope['method']} {scope['path']}")


if __name__ == "sitecustomize" and "WALK_FOLDER" in os.environ:
    Tracer(Path(os.environ["WALK_ROOT"]), Path(os.environ["WALK_FOLDER"])).install()
