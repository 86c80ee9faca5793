"""The report of memory tests as JUnit XML."""

from xml.etree import ElementTree as ET

from memcore.memory_tests.report import MemoryTestReport
from memcore.models.memory_test import MemoryTestResult, Outcome


def test_a_report_is_junit_xml_whatever_its_words() -> None:
    odd = "a<b>&\"'\x00\x1b[2J\ud800\ufffe ü 🙂 ]]>\n\tsecond"
    results = [
        MemoryTestResult(agent="oncall", name="page", outcome=Outcome.PASSED, seconds=0.25),
        MemoryTestResult(agent="on&call", name=odd, outcome=Outcome.FAILED, reasons=(odd, "more")),
        MemoryTestResult(agent="oncall", name="away", outcome=Outcome.ERROR, reasons=("no answer",)),
    ]
    written = MemoryTestReport(results=tuple(results), seconds=1.5).junit()
    suite = ET.fromstring(written)  # noqa: S314  # written above
    assert suite.tag == "testsuite"
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "time")}
    assert counts == {"tests": "3", "failures": "1", "errors": "1", "time": "1.500"}
    passed, failed, away = suite
    assert (passed.get("classname"), passed.get("name"), passed.get("time"), len(passed)) == (
        "oncall",
        "page",
        "0.250",
        0,
    )
    assert failed.get("classname") == "on&call"
    assert failed.get("name") == "a<b>&\"'[2J ü 🙂 ]]>\n\tsecond"
    (why,) = failed
    assert why.tag == "failure"
    assert (why.text or "").endswith("second\nmore")
    assert [each.tag for each in away] == ["error"]
