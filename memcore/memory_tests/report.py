"""The report of a run of memory tests, also as JUnit XML."""

import re
from xml.etree import ElementTree as ET

from memcore.models.base import Frozen
from memcore.models.memory_test import MemoryTestResult, Outcome

#: What XML 1.0 has no way to write.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: What JUnit calls a test that did not pass.
_ELEMENTS = {Outcome.FAILED: "failure", Outcome.ERROR: "error"}


class MemoryTestReport(Frozen):
    """What came of a run of tests.

    Attributes:
        results: one for each test, in the order given.
        seconds: how long all took together.
    """

    results: tuple[MemoryTestResult, ...]
    seconds: float

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return self._count(Outcome.PASSED)

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return self._count(Outcome.FAILED)

    @property
    def errors(self) -> int:
        """How many tests had no answer."""
        return self._count(Outcome.ERROR)

    def _count(self, outcome: Outcome) -> int:
        return sum(each.outcome == outcome for each in self.results)

    def junit(self) -> bytes:
        """Return the report as JUnit XML, in UTF-8; characters that XML does not know are left out."""
        counts = {"tests": len(self.results), "failures": self.failed, "errors": self.errors}
        about = {"name": "memory tests", "time": f"{self.seconds:.3f}"}
        suite = ET.Element("testsuite", about | {name: str(count) for name, count in counts.items()})
        for each in self.results:
            names = {"classname": _said(each.agent), "name": _said(each.name), "time": f"{each.seconds:.3f}"}
            case = ET.SubElement(suite, "testcase", names)
            if each.outcome is not Outcome.PASSED:
                element = ET.SubElement(case, _ELEMENTS[each.outcome], {"message": _said("; ".join(each.reasons))})
                element.text = _said("\n".join(each.reasons))
        written: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
        return written


def _said(text: str) -> str:
    return _NOT_XML.sub("", text)
