"""Faulty stage runners: Python files in the place of the real one."""

import os
import stat
import sys
from pathlib import Path

from memcore.finetune.execution.docker_engine import docker_engine

#: What each does, as the body of a program.
BODIES = {
    "complete": "say('STAGE_START:training')\nsay('PROGRESS:0.5')\nsay('PROGRESS:1.0')\nsay('STAGE_COMPLETE:training')",
    "fails": "say('STAGE_START:training'); err('ERROR: training failed: No space left on device')\nsys.exit(1)",
    "silent": "say('STAGE_START:training')",
    "wrong_stage": "say('STAGE_COMPLETE:evaluating')",
    "no_reason": "sys.exit(7)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "complete_and_fails": "say('STAGE_COMPLETE:training')\nsys.exit(1)",
    "not_utf8": "sys.stdout.buffer.write(b'\\xff\\xfe\\n')\nsay('STAGE_COMPLETE:training')",
    "cut_marker": "sys.stdout.write('STAGE_COMPLETE:train')\nsys.stdout.flush()",
    "ten_megabytes": "sys.stdout.write('x' * 10_000_000 + '\\n')\nsay('STAGE_COMPLETE:training')",
    "ten_megabytes_of_errors": "sys.stderr.write('x' * 10_000_000 + '\\n')\nsay('STAGE_COMPLETE:training')",
    "child_keeps_output": (
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "say(f'CHILD {child.pid}')\nsay('STAGE_COMPLETE:training')"
    ),
    "broken_config": "told('{')",
    "unknown_stage": 'told(\'{"stage": "lunch"}\')',
    "waits_for_ever": "say('STAGE_START:training'); signal.pause()",
    "heeds_no_signal": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        # Its reader may be killed before it speaks.
        "try:\n    say(f'CHILD {child.pid}'); say('STAGE_START:training')\nexcept OSError:\n    pass\ntime.sleep(600)"
    ),
}

_HEAD = """\
import os, signal, subprocess, sys, time
def say(line):
    print(line, flush=True)
def err(line):
    print(line, file=sys.stderr, flush=True)
def told(config):
    # The real runner, told something else.
    open(os.environ["MEMTEND_FINE_TUNE_CONFIG"], "w").write(config)
    os.execv(sys.executable, [sys.executable, "-m", "memcore.finetune.runner"])
"""


def fake_python(folder: Path, name: str) -> str:
    """Return a program that takes an interpreter's arguments, and does what its name says."""
    body = folder / f"{name}.py"
    body.write_text(_HEAD + BODIES[name], "utf-8")
    program = folder / name
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -S {body}\n", "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def fake_image(folder: Path, name: str) -> str:
    """Build an image that does the same with the engine of this machine, and return its reference."""
    context = folder / f"image-{name}"
    context.mkdir(exist_ok=True)
    (context / "runner.py").write_text(_HEAD + BODIES[name], "utf-8")
    base = os.environ.get("MEMTEND_TEST_DOCKER_IMAGE", "python:3.12.12-slim-bookworm")
    (context / "Dockerfile").write_text(
        f'FROM {base}\nCOPY runner.py /\nENTRYPOINT ["python", "/runner.py"]\n', "utf-8"
    )
    with docker_engine() as engine:
        engine.images.build(path=str(context), tag=f"memtend-fake-runner:{name}", rm=True)
    return f"memtend-fake-runner:{name}"
