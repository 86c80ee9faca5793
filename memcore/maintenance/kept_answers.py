"""The answers that the ledger keeps: what a night reads, which never waits for a model."""

from memcore import ids
from memcore.errors import AnswerMissingError
from memcore.ledger.answers import Answer
from memcore.ledger.answers import Answers as AnswersTable
from memcore.ledger.run import Run
from memcore.maintenance.question import Question, Reply


class KeptAnswers:
    """Look questions up for one run.

    Args:
        table: where answers are kept.
        run: whose failures count; another run's are asked again.
    """

    def __init__(self, table: AnswersTable, run: Run) -> None:
        self._table = table
        self._run = run

    async def ask(self, question: Question) -> Reply:
        """Return what is kept. Raises AnswerMissingError."""
        found = self._table.get(question_id(question, self._run))
        if found is None or not is_settled(found, self._run):
            raise AnswerMissingError(f"{question.purpose}: the model has to be asked first")
        return reply(found)


class NoAnswers:
    """Stand in where nobody is asked: a plan, which only counts the questions."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, question: Question) -> Reply:
        """Count the question and raise AnswerMissingError."""
        self.asked += 1
        raise AnswerMissingError(f"{question.purpose}: a plan asks no model")


def question_id(question: Question, run: Run) -> str:
    """Return the id under which a question of a run's agent is kept, whichever run asks."""
    return ids.question_id(
        company=run.company,
        agent_id=run.agent_id,
        purpose=question.purpose,
        model=question.model or "",
        about=question.about,
    )


def is_settled(answer: Answer, run: Run) -> bool:
    """Return whether the run need not ask: it is answered, or was asked in vain by this very run."""
    return answer.state == "answered" or (answer.state == "unusable" and answer.run_id == run.run_id)


def reply(answer: Answer) -> Reply:
    """Return a settled answer as ops see it."""
    return Reply(text=answer.text, reason=answer.reason or "")
