"""Real answers of a model of 1.5 billion parameters, read again: what is kept is borne out, and little is made up."""

from benchmarks.judgement.asking import GROUNDED, INVENTED, borne_out, cases, replayed, targets

from memcore.models.asking import AnsweredBy


def test_every_sentence_is_borne_out_and_few_questions_without_an_answer_have_one() -> None:
    answers = replayed()
    figures = {each.name.partition(": ")[2]: each for each in targets(answers)}
    assert figures["borne out by the memories that they name"].value == GROUNDED
    assert figures["answered"].value <= INVENTED
    assert sum(map(len, (list(borne_out(answer)) for _, answer in answers))) > 5


def test_most_of_what_a_memory_says_is_answered_rightly() -> None:
    known = [(case, answer) for case, answer in replayed() if case.says]
    answered = [(case, answer) for case, answer in known if answer.answered_by is AnsweredBy.MODEL]
    assert len(answered) >= 0.5 * len(known)
    assert sum(case.is_right(answer) for case, answer in answered) >= 0.9 * len(answered)


def test_there_are_a_hundred_questions_of_which_sixty_have_an_answer() -> None:
    assert (len(cases()), sum(bool(case.says) for case in cases())) == (100, 60)
