"""A runner whose worker died ends by itself, with all its children."""

import subprocess
import sys

from support.repository import ROOT
from support.stage_executors import is_gone

from memcore.finetune.runner import PARENT


def test_a_runner_whose_worker_is_gone_ends_with_all_that_it_started() -> None:
    runner = (
        "import os, subprocess, sys, time\n"
        "from memcore.finetune.runner import end_with_parent\n"
        "end_with_parent(os.environ)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(os.getpid(), child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    worker = (
        "import os, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {runner!r}], start_new_session=True,\n"
        f"    env={{**os.environ, {PARENT!r}: str(os.getpid())}}).wait()\n"
    )
    started = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert started.stdout is not None
    pids = [int(pid) for pid in started.stdout.readline().split()]
    started.kill()
    started.wait()
    assert len(pids) == 2
    assert all(map(is_gone, pids))
    started.stdout.close()
