"""Through each path that keeps a model's text: 60 hostile or wrong answers and more, and none is kept."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from support.experiences import experience
from support.fake_teacher import FakeTeacher
from support.grounding_corpora import ECHOES, NEVER, honest, hostile, sourced
from support.ledger_records import COMPANY
from support.memories import NOW, new_agent, record

from memcore.config.conversation import ConversationConfig
from memcore.config.learning import ProceduralMemoryConfig
from memcore.config.maintenance import ExperienceCompressorConfig
from memcore.conversation.ending import summarise
from memcore.conversation.extraction import Asker
from memcore.conversation.guards import Guard, before_policy
from memcore.errors import MalformedAnswerError
from memcore.experience import LLMExperienceCompressor
from memcore.finetune.documents import Owned, Passage
from memcore.finetune.questions import QuestionWriter
from memcore.ledger.conversation.in_memory import open_in_memory
from memcore.ledger.conversation.turns import Turn
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.llm.grounding import Fault, ungrounded
from memcore.maintenance.consolidation.answers import AnsweringModel
from memcore.maintenance.consolidation.dual_mode import AbstractiveSummarizationOp, AbstractiveSummarizer
from memcore.maintenance.consolidation.llm import LLMSynthesisOp
from memcore.models.conversation import Candidate, FactCategory, ProceduralCandidate, SemanticCandidate
from memcore.models.memory import FALLBACK_TAG
from memcore.procedural.proposer import FailureAnalysisPayload, propose

#: What a path keeps of an answer, in a text; None where it keeps nothing.
Kept = str | None


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    made = open_in_memory()
    yield made
    made.close()


def _answering(ledger: Ledger, text: str) -> AnsweringModel:
    run = ledger.runs.create(NewRun(company=COMPANY, agent_id=new_agent(), planned_at=NOW))
    assert run is not None
    return AnsweringModel(ledger.answers, run, FakeTeacher(always=text or " "), is_patient=False)


async def _merged(ledger: Ledger, sources: Sequence[str], text: str) -> Kept:
    op = LLMSynthesisOp(_answering(ledger, text))
    draft = await op.write([record("ada", content) for content in sources])
    return None if FALLBACK_TAG in draft.tags else draft.content


async def _shortened(ledger: Ledger, sources: Sequence[str], text: str) -> Kept:
    op = AbstractiveSummarizationOp(AbstractiveSummarizer(_answering(ledger, text), model="small"))
    draft = await op.write([record("ada", "\n".join([*sources, "=" * 400]))])
    return None if FALLBACK_TAG in draft.tags else draft.content


async def _summed_up(_: Ledger, sources: Sequence[str], text: str) -> Kept:
    turns = [
        Turn(
            turn_id=f"t-{place}", agent_id="ada", subject="user:mira", session_key="s", at=NOW, user_text=source
        )
        for place, source in enumerate(sources)
    ]  # fmt: skip
    model = FakeTeacher(always=json.dumps({"summary": text, "topics": [text]}))
    asker = Asker(model=model, config=ConversationConfig(), company=COMPANY, agent_id="ada", run_id="s")
    try:
        form = await summarise(asker, turns, None)
    except MalformedAnswerError:
        return None
    return form.summary


async def _learned(_: Ledger, sources: Sequence[str], text: str) -> Kept:
    prompt, output, *feedback = sources
    model = FakeTeacher(always=json.dumps({"strategic_decisions": [text], "applicable_contexts": [text]}))
    compressor = LLMExperienceCompressor(model, ExperienceCompressorConfig(), company=COMPANY)
    made = experience("e", prompt=prompt, output=output, verification_feedback=feedback[0])
    try:
        lesson = await compressor.compress(made)
    except MalformedAnswerError:
        return None
    return "\n".join((*lesson.strategic_decisions, *lesson.applicable_contexts))


async def _proposed(_: Ledger, sources: Sequence[str], text: str) -> Kept:
    fields = dict.fromkeys(("discovery", "condition", "action", "rationale"), text)
    model = FakeTeacher(always=json.dumps({**fields, "execution_steps": [text], "confidence": 0.9}))
    payload = FailureAnalysisPayload(
        task_id="t", task_title=sources[0], task_description="\n".join(sources[1:]), termination_reason="error",
        turn_count=3,
    )  # fmt: skip
    try:
        draft = await propose(model, ProceduralMemoryConfig(), payload, company=COMPANY, agent_id="ada")
    except MalformedAnswerError:
        return None
    return draft.action


async def _asked(ledger: Ledger, sources: Sequence[str], text: str) -> Kept:
    writer = QuestionWriter(
        FakeTeacher(always=json.dumps({"questions": [text]})), ledger, company=COMPANY, run_id="r",
        model_name=new_agent(), count=1, alive=lambda: None, clock=lambda: NOW,
    )  # fmt: skip
    (passage,) = sources
    written = await writer.write([Owned(agent_id="ada", passage=Passage(text=passage, source="memory"))])
    return "\n".join(question for each in written for question in each.passage.questions) or None


PATHS: dict[str, tuple[str, Callable[[Ledger, Sequence[str], str], Awaitable[Kept]]]] = {
    "merged": ("notes", _merged),
    "shortened": ("notes", _shortened),
    "arcs": ("notes", _summed_up),
    "lessons": ("lessons", _learned),
    "proposals": ("lessons", _proposed),
    "questions": ("questions", _asked),
}


def _tried(path: str, every: Iterable[tuple[Sequence[str], Any]]) -> list[tuple[Sequence[str], str]]:
    """Return what is tried on a path.

    Advice may use other words: what only its words tell is left out. A question may, too, and its prompt is another.
    """
    is_advice, is_question = path == "proposals", path == "questions"
    return [
        (sources, text)
        for sources, text in every
        if not (is_advice and text not in NEVER and ungrounded(text, sources) is Fault.WORDS)
        and not (is_question and text in ECHOES)
    ]


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_that_its_sources_do_not_bear_out_is_kept(ledger: Ledger, path: str) -> None:
    name, keeps = PATHS[path]
    every = _tried(path, hostile(name))
    kept = [text for sources, text in every if await keeps(ledger, sources, text) is not None]
    sys.stdout.write(f"{path}: {len(every)} hostile or wrong answers, kept: {len(kept)}\n")
    assert len(every) >= 60
    assert kept == []


@pytest.mark.parametrize("path", PATHS)
async def test_honest_answers_are_kept(ledger: Ledger, path: str) -> None:
    name, keeps = PATHS[path]
    every = [(sources, text, await keeps(ledger, sources, text)) for sources, text in honest(name)]
    lost = [text for _, text, kept in every if kept is None]
    sys.stdout.write(f"{path}: {len(every)} honest answers, kept: {len(every) - len(lost)}\n")
    assert len(lost) <= 0.05 * len(every), lost


def _candidates(name: str, given: Any, said: str) -> Candidate:
    if name == "rules":
        return ProceduralCandidate(rule=given, evidence_quote=said, kind="explicit")
    subject, predicate, obj = map(str, given)
    return SemanticCandidate(
        category=FactCategory.IDENTITY, subject=subject, predicate=predicate, object=obj, evidence_quote=said
    )  # fmt: skip


@pytest.mark.parametrize("name", ["facts", "rules"])
def test_no_fact_and_no_rule_says_what_the_turn_does_not(name: str) -> None:
    tried = [(sources[0], given) for sources, given in hostile(name)]
    if name == "facts":
        said = sourced(name)[0].sources[0]
        tried = [(source, given) for source, given in tried if not isinstance(given, str)]
        # Where the object stands, where the subject stands, and with the right words beside it.
        tried += [(said, ("User", "SAYS", text)) for text in NEVER] + [(said, (text, "IS", "nurse")) for text in NEVER]
    found = list[Guard | None]()
    for source, given in tried:
        try:
            candidate = _candidates(name, given, source)
        except ValueError:
            # Not even the form takes it.
            found.append(Guard.UNGROUNDED)
            continue
        found.append(before_policy(candidate, user_text=source, control=None))
    kept = [given for (_, given), guard in zip(tried, found, strict=True) if guard is None]
    sys.stdout.write(f"{name}: {len(tried)} hostile or wrong, kept: {len(kept)}\n")
    assert len(tried) >= 60
    assert kept == []
    assert found.count(Guard.UNGROUNDED) >= 0.9 * len(found)


@pytest.mark.parametrize("name", ["facts", "rules"])
def test_honest_facts_and_rules_are_kept(name: str) -> None:
    every = [(sources[0], given) for sources, given in honest(name)]
    guards = [before_policy(_candidates(name, given, said), user_text=said, control=None) for said, given in every]
    sys.stdout.write(f"{name}: {len(every)} honest, kept: {guards.count(None)}\n")
    assert guards.count(None) >= 0.95 * len(every)
