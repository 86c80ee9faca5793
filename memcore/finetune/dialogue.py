"""What one speaker asked is what the next remark answers: questions that nobody had to write.

They are asked in words of their own, where questions made of a passage repeat its words; a model that is trained on
both finds what the words alone do not.
"""

import re

#: Shortest question, in words: shorter ones ("And you?") ask for nothing in particular.
MIN_WORDS = 4

#: Longest question, in characters; what is longer is no question but a speech.
MAX_CHARS = 200

#: Shortest answer, in characters: "Yes, thanks!" tells nothing that somebody would look for.
MIN_ANSWER_CHARS = 40

#: Most questions of one remark, the last ones, which are what is answered.
MOST = 2

_SPEAKER = re.compile(r"(?:\[[^\]\n]{0,80}\]\s*)?(?P<name>[^\W\d_][\w'-]{0,40}):\s+(?P<said>\S.*)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")

#: The person who is spoken to, and the one who speaks, in the third person.
_TOLD = tuple(
    (re.compile(rf"\b(?:{spoken})\b", re.IGNORECASE), told)
    for spoken, told in (
        ("you're|you are", "{asked} is"),
        ("are you", "is {asked}"),
        ("were you", "was {asked}"),
        ("have you", "has {asked}"),
        ("do you", "does {asked}"),
        ("you've", "{asked} has"),
        ("you'll", "{asked} will"),
        ("you'd", "{asked} would"),
        ("yours?", "{asked}'s"),
        ("you(?:rself)?", "{asked}"),
        ("I'm|I am", "{asking} is"),
        ("I've|I have", "{asking} has"),
        ("my", "{asking}'s"),
        ("I|me", "{asking}"),
    )
)


def questions_before(text: str, earlier: str) -> tuple[str, ...]:
    """Return what the text right before asked that this one may answer, the last questions, in their order.

    Where both are told as ``Name: what was said``, with or without a date in brackets, one speaker's next remark is no
    answer to the same one's, and "you" becomes the name of who answers: "What does Ada paint?".
    """
    asking, asked = _SPEAKER.match(earlier), _SPEAKER.match(text)
    if asking is not None and asked is not None and asking["name"] == asked["name"]:
        return ()
    if len(text if asked is None else asked["said"]) < MIN_ANSWER_CHARS:
        return ()
    said = earlier if asking is None else asking["said"]
    sentences = _SENTENCE.split(" ".join(said.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()))
    questions = [each for each in sentences if each.endswith("?")]
    questions = [each for each in questions if len(each.split()) >= MIN_WORDS and len(each) <= MAX_CHARS]
    if asking is not None and asked is not None:
        questions = [_told(each, asking=asking["name"], asked=asked["name"]) for each in questions]
    return tuple(questions[-MOST:])


def _told(question: str, *, asking: str, asked: str) -> str:
    for spoken, told in _TOLD:
        question = spoken.sub(told.format(asking=asking, asked=asked), question)
    question = question[0].upper() + question[1:]
    return question if asked in question else f"{asked}: {question}"
