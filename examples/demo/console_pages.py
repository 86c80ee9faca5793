"""The demo's look at the console: its address, and pictures of two pages where a Chromium is found."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memcore.ledger.runs import Run
from memcore.programs import program_argv
from ops.cli.console import say

#: Names of a Chromium on the path.
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

#: Width and height of a picture, in pixels.
_SIZE = "1120,800"

#: Longest time for one picture, and for the server to start or end, in seconds.
_PICTURE_SECONDS, _SERVER_SECONDS = 60.0, 60.0


def show_console(home: Path, url: str, run: Run, *, pictures: Path) -> None:
    """Print where the console is, and save pictures of the fleet and of a run into a folder, if that can be done."""
    say(f"\nthe console, for people: {url}/console (sign in with a key of `memtend keys create`)")
    found = os.environ.get("MEMTEND_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        say("  no Chromium is on the path: no pictures of it")
        return
    pages = {"fleet": "fleet", "run": f"runs/{run.run_id}"}
    with _server_without_keys(home) as address:
        saved = [
            _picture(found, f"{address}/console/{page}", pictures / f"console-{name}.png")
            for name, page in pages.items()
        ]
    if all(saved):
        say(f"  pictures of Fleet and Run: {', '.join(str(pictures / f'console-{name}.png') for name in pages)}")
    else:
        say(f"  {found} took no pictures of it")


@contextmanager
def _server_without_keys(home: Path) -> Iterator[str]:
    """Serve the folder once more, on loopback and without keys: a Chromium takes pictures, and signs in nowhere."""
    argv = (*program_argv("ops.http.serve", python=sys.executable), "--no-auth", "--port=0")
    env = {**os.environ, "MEMTEND_HOME": str(home)}
    # Its log would stand between the demo's sentences.
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    try:
        line = server.stdout.readline() if server.stdout else ""
        yield line.split()[1].removeprefix("url=") if line.startswith("serve.ready ") else ""
    finally:
        server.terminate()
        server.wait(_SERVER_SECONDS)
        if server.stdout:
            server.stdout.close()


def _picture(chromium: str, address: str, file: Path) -> bool:
    """Take a picture of a page; False where the Chromium does not."""
    # Not in the temporary folder of the environment: the browser's socket lies here, whose path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="memtend-demo-chromium-", dir="/tmp") as profile:
        argv = [
            chromium,
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-breakpad",
            f"--window-size={_SIZE}",
        ]
        # Its sandbox cannot be had as root; it sees the demo's own pages alone.
        argv += ["--no-sandbox"] if os.geteuid() == 0 else []
        argv += [f"--user-data-dir={profile}", f"--screenshot={file}", address]
        try:
            subprocess.run(
                argv, env={**os.environ, "TMPDIR": profile}, capture_output=True, check=True, timeout=_PICTURE_SECONDS
            )
        except (subprocess.SubprocessError, OSError):
            return False
    return file.exists()
