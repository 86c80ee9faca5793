"""The demo's look at the console: its address, and pictures of its pages where a Chromium is found."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from examples.demo.fleet import FleetQuestion
from memcore.programs import program_argv
from ops.cli.console import say

#: Names of a Chromium on the path.
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

#: Width of a picture, in pixels.
_WIDTH = 1280

#: The pages of which pictures are taken, by name: title, height in pixels, and path, filled by ``ConsolePages``.
PICTURES: Mapping[str, tuple[str, int, str]] = {
    "last-night": ("Last night", 1100, "activity"),
    "fleet": ("Fleet", 720, "fleet"),
    "run": ("Run", 800, "runs/{run}"),
    "timeline": ("Timeline", 600, "memories/timeline?agent={undone}&zoom=month"),
    "lineage": ("Lineage", 1000, "memories/one?agent={agent}&id={summary}"),
    "lab": ("Search lab", 720, "memories/lab?agent={asked}&q={question}"),
    "tests": ("Memory tests", 960, "activity/tests"),
}

#: Longest time for one picture, and for the server to start or end, in seconds.
_PICTURE_SECONDS, _SERVER_SECONDS = 60.0, 60.0

#: Pictures that are taken at the same time.
_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePages:
    """What the pictures show.

    Attributes:
        run_id: a maintenance run of ``agent``, which made the summary ``summary_id``.
        undone: the agent whose run was taken back.
        asked: what the search lab asks.
    """

    agent: str
    run_id: str
    summary_id: str
    undone: str
    asked: FleetQuestion

    def path(self, path: str) -> str:
        """Return the path of a page."""
        shown = {"agent": self.agent, "run": self.run_id, "summary": self.summary_id, "undone": self.undone}
        shown |= {"asked": self.asked.agent_id, "question": self.asked.text}
        return path.format(**{name: quote(value, safe="") for name, value in shown.items()})


def show_console(home: Path, url: str, pages: ConsolePages, *, pictures: Path) -> None:
    """Print where the console is, and save pictures of its pages into a folder, if that can be done."""
    say(f"\nthe console, for people: {url}/console (sign in with a key of `memtend keys create`)")
    found = os.environ.get("MEMTEND_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        say("  no Chromium is on the path: no pictures of it")
        return
    with _server_without_keys(home) as address, ThreadPoolExecutor(_AT_ONCE) as taking:
        saved = taking.map(
            lambda name: _picture(
                found,
                f"{address}/console/{pages.path(PICTURES[name][2])}",
                pictures / f"console-{name}.png",
                height=PICTURES[name][1],
            ),
            PICTURES,
        )
        are_all_saved = all(list(saved))
    if are_all_saved:
        say(f"  pictures of {', '.join(title for title, _, _ in PICTURES.values())}: {pictures}/console-*.png")
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


def _picture(chromium: str, address: str, file: Path, *, height: int) -> bool:
    """Take a picture of a page; False where the Chromium does not."""
    # Not in the temporary folder of the environment: the browser's socket lies here, whose path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="memtend-demo-chromium-", dir="/tmp") as profile:
        argv = [
            chromium,
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-breakpad",
            f"--window-size={_WIDTH},{height}",
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
