"""A Chromium for tests of pages: that of ``MEMTEND_TEST_CHROMIUM``, one of this machine, or one from an npm package."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserType, Error, sync_playwright

#: Names of a Chromium on the path.
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

#: A package that holds a whole Chromium, and the one that checks pages for people with a screen reader.
NPM_CHROMIUM, NPM_AXE = "@sparticuz/chromium@147.0.0", "axe-core@4.14.1"

#: Longest time for npm, in seconds.
_NPM_SECONDS = 600

#: Unpacks the Chromium of the package, with the libraries that a bare machine lacks, and prints where it is.
_UNPACK = 'import c from "@sparticuz/chromium"; process.stdout.write(await c.executablePath())'


def npm_packages(folder: Path, *packages: str) -> Path:
    """Install npm packages into a folder, and return it; the test is skipped where that cannot be."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    argv = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=_NPM_SECONDS, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install {packages} here: {done.stderr[-300:]}")
    return folder


def installed_chromium() -> str | None:
    """Return the Chromium that the environment names, or that the path has."""
    named = os.environ.get("MEMTEND_TEST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Run a Chromium; the test is skipped where none can be had."""
    with sync_playwright() as playwright:
        path, libraries = installed_chromium(), None
        if path is None:
            path, libraries = _unpacked(folder)
        browser = _launched(playwright.chromium, path, libraries)
        try:
            yield browser
        finally:
            browser.close()


def _launched(kind: BrowserType, path: str, libraries: str | None) -> Browser:
    # Without its sandbox, which root may not use: it sees this test's own pages alone.
    args = ["--no-sandbox", "--disable-gpu"]
    try:
        return kind.launch(executable_path=path, args=args)
    except Error as error:
        if libraries is None:
            pytest.skip(f"the Chromium at {path} does not start: {str(error)[:300]}")
    try:
        return kind.launch(executable_path=path, args=args, env={**os.environ, "LD_LIBRARY_PATH": libraries})
    except Error as error:
        pytest.skip(f"the Chromium of {NPM_CHROMIUM} does not start here: {str(error)[:300]}")


def _unpacked(folder: Path) -> tuple[str, str]:
    npm_packages(folder, NPM_CHROMIUM)
    unpacked = folder / "unpacked"
    unpacked.mkdir(exist_ok=True)
    # It unpacks the libraries only where it believes itself on the machines that it was made for.
    environ = {**os.environ, "TMPDIR": str(unpacked), "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
    argv = ["node", "--input-type=module", "-e", _UNPACK]
    done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"the Chromium of {NPM_CHROMIUM} cannot be unpacked: {done.stderr[-300:]}")
    return done.stdout.strip(), str(unpacked / "al2023" / "lib")
