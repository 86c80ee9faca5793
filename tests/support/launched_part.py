"""A program for the launcher to fork: it writes what it finds itself to be into a file, then ends as it is told.

Arguments: the file; the exit code, or ``stay`` to wait for a signal.
"""

import json
import os
import signal
import sys
from pathlib import Path


def facts() -> dict[str, object]:
    umask = os.umask(0)
    os.umask(umask)
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "umask": umask,
        "threads": len(list(Path("/proc/self/task").iterdir())),
        # The last one is that of the folder itself.
        "descriptors": sorted(int(each.name) for each in Path("/proc/self/fd").iterdir())[:-1],
        "input": str(Path("/proc/self/fd/0").readlink()),
        "argv": sys.argv[1:],
        "folder": str(Path.cwd()),
        "environ": dict(os.environ),
        "preloaded": "workers.groups" in sys.modules,
        "signals": [signal.getsignal(each) is signal.SIG_DFL for each in (signal.SIGTERM, signal.SIGCHLD)],
    }


if __name__ == "__main__":
    path, end = sys.argv[1:]
    draft = Path(f"{path}.new")
    draft.write_text(json.dumps(facts()))
    draft.replace(path)
    sys.stdout.write("written\n")
    if end == "stay":
        signal.pause()
    sys.exit(int(end))
