"""The lines of doors that mutants.py breaks beside those of mutations.py, which is as long as a file may be."""

from measure.mutations import MUTANTS as OTHERS
from measure.mutations import Mutant

MEMORY_TESTS = (
    ("if not any(map(named.names, shown)):", "if False:"),
    ("if first >= second:", "if False:"),
    ("return folded(self.text) in folded(entry.content)", "return self.text in entry.content"),
    ("if test.authority is not None:", "if False:"),
    ("raise MemoryConnectionError(f\"no answer of: {', '.join(remembered.degraded)}\")", "pass"),
    ("if self._errors_in_a_row < MOST_ERRORS:", "if True:"),
    ("if (test.agent, test.name) in found:", "if False:"),
    ('return _NOT_XML.sub("", text)', "return text"),
    ("return self.passes and (bool(self.test.shows_not) or any(failures(self.test, left)))", "return False"),
    ("return not self.passes and self._wanted.are_among(sources, said)", "return False"),
    (
        "return self._tight is not None and shadow.may_pass(self.test.question, summary.id, before=self._tight)",
        "return False",
    ),
    (
        "self._texts = {each.id: each.content for each in entries}",
        "self._texts = {each.id: each.id for each in entries}",
    ),
    ("if named.isdisjoint(tests):", "if True:"),
    ("raise typer.Exit(EXIT_FAILED if report.failed else EXIT_INPUT)", "raise typer.Exit(EXIT_FAILED)"),
)  # fmt: skip

EVALUATION = (
    ("tokens = _joined(tokens, exact)", "pass"),
    ("return self.reading is _recently", "return False"),
    ("if self.is_vague:", "if False:"),
    ('scores["shown_wrongly"] = float(any(entry.standing is not Standing.WEAK for entry in entries))', "pass"),
    ('scores["stale_first"] = float(first in stale)', 'scores["stale_first"] = 0.0'),
    ('return "better" if (apart.low > 0.0) is is_more_better else "worse"', 'return "better"'),
    ("if twice:", "if False:"),
    ("shutil.rmtree(home, ignore_errors=True)", "pass"),
    ("storage.pop(name, None)", "pass"),
    ('"finds": [] if is_unanswerable else marked or sessions,', '"finds": marked or sessions,'),
)

MUTANTS: tuple[Mutant, ...] = (
    *OTHERS,
    *(Mutant(area="memory tests", line=line, becomes=becomes) for line, becomes in MEMORY_TESTS),
    *(Mutant(area="evaluation", line=line, becomes=becomes) for line, becomes in EVALUATION),
)
