"""Sum what pytest's reports say: ``python tests/tally.py FOLDER`` prints one closing line for several runs.

Before it stand the figures that tests have recorded (``record_property``), such as the sizes of the files. It ends with
exit code 1 when nothing ran, when a test failed, or when one was skipped for a reason that it may not have.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

#: What a skip may name: hardware, the system, a program that a machine may lack, or the variable that would name one or
#: an outside service.
ALLOWED_SKIP = re.compile(
    r"\b(GPU|Docker|Linux|Helm|Chromium|node|npm|npx|git|disk|system|make (chart|sbom))\b|\bMEMTEND_TEST_[A-Z0-9_]+\b"
)


@dataclass
class Tally:
    """What became of the tests of some reports."""

    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    skips: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def unexcused(self) -> list[tuple[str, str]]:
        """Return test and reason of every skip that names nothing that a machine may lack."""
        return [(name, reason) for name, reason in self.skips if not ALLOWED_SKIP.search(reason)]

    @property
    def closing_line(self) -> str:
        """Return the sum in the form of pytest's own closing line."""
        counts = [f"{self.failed} failed"] * bool(self.failed) + [f"{self.passed} passed"]
        counts += [f"{len(self.skips)} skipped"] * bool(self.skips)
        return f"== {', '.join(counts)} in {self.seconds:.2f}s: {self.passed + self.failed} tests ran =="


def tally(reports: Path) -> Tally:
    """Return the sum of the reports in a folder."""
    total = Tally()
    for report in sorted(reports.glob("*.xml")):
        for suite in ET.parse(report).iter("testsuite"):  # noqa: S314  # pytest wrote it a moment ago
            total.seconds += float(suite.get("time", "0"))
            for case in suite.iter("testcase"):
                total.notes += [(each.get("name", ""), each.get("value", "")) for each in case.iter("property")]
                skipped = case.find("skipped")
                if case.find("failure") is not None or case.find("error") is not None:
                    total.failed += 1
                elif skipped is None:
                    total.passed += 1
                else:
                    name = f"{case.get('classname')}.{case.get('name')}"
                    total.skips.append((name, skipped.get("message", "")))
    return total


def main(reports: Path) -> int:
    """Print the sum; return the exit code."""
    total = tally(reports)
    for name, note in total.notes:
        sys.stdout.write(f"{name}: {note}\n")
    for name, reason in total.unexcused:
        sys.stdout.write(f"skipped without anything that a machine may lack as its reason: {name}: {reason}\n")
    sys.stdout.write(f"{total.closing_line}\n")
    return 1 if total.failed or total.unexcused or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
