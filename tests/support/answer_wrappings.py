"""Forty ways in which language models wrap an answer in a form, and forty for one that is free text."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

#: What an answer in a form says, as JSON.
Said = dict[str, Any]

#: Names of enumerations and of choices in the forms: these, and nothing else, are written in another case.
CHOICES = frozenset(
    """
    low medium high explicit implicit commit_now commit_at_session_end require_repetition drop bump supersede coexist
    append replace skip semantic episodic procedural semantic_only episodic_only identity relationship preference work
    health coping_strategy goal interest place belief possession loss trigger mood event situation
    """.split()  # noqa: SIM905  # a list of one word a line would be unreadable
)


def dumped(said: object, **how: Any) -> str:
    """Return JSON as models write it."""
    return json.dumps(said, ensure_ascii=False, **how)


def _each(said: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with every leaf changed."""
    if isinstance(said, dict):
        return {key: _each(value, change) for key, value in cast("Said", said).items()}
    if isinstance(said, list):
        return [_each(value, change) for value in said]
    return change(said)


def _renamed(said: Any, change: Callable[[str], str]) -> Any:
    """Return a value with every key changed."""
    if isinstance(said, dict):
        return {change(key): _renamed(value, change) for key, value in cast("Said", said).items()}
    return [_renamed(value, change) for value in said] if isinstance(said, list) else said


def _loud(leaf: Any) -> Any:
    return leaf.replace("_", " ").upper() if leaf in CHOICES else leaf


def _titled(leaf: Any) -> Any:
    return leaf.replace("_", "-").title() if leaf in CHOICES else leaf


def _other_kind(leaf: Any) -> Any:
    """Return a number as a text, and a text that is a number as one."""
    if isinstance(leaf, str):
        return int(leaf) if re.fullmatch(r"[1-9]\d{0,6}", leaf) else leaf
    return leaf if leaf is None or isinstance(leaf, bool) else str(leaf)


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(map(str.title, others))


def _without_nothing(said: Said) -> Said:
    """Return an answer without its empty lists, but for one of them where there is nothing else."""
    kept = {key: value for key, value in said.items() if value != []}
    return kept or dict([next(iter(said.items()))])


def _with_nulls(said: Said) -> Said:
    kept = _without_nothing(said)
    return {key: value if key in kept else None for key, value in said.items()}


def _bare(said: Said) -> object:
    """Return the entries of an answer that is nothing but lists, and a list of another one."""
    full = [value for value in said.values() if value != []]
    if all(isinstance(value, list) for value in full) and (len(full) < 2 or isinstance(full[0][0], dict)):
        return [entry for value in full for entry in value]
    return [said]


def _with_commas(said: Any) -> str:
    if isinstance(said, dict):
        fields = cast("Said", said).items()
        return "{" + "".join(f"{dumped(key)}: {_with_commas(value)},\n" for key, value in fields) + "}"
    if isinstance(said, list):
        return "[" + "".join(f"{_with_commas(value)}, " for value in said) + "]"
    return dumped(said)


def _commented(said: Said) -> str:
    lines = [f"  {dumped(key)}: {dumped(value)}" for key, value in said.items()]
    return "{\n  // what was found: {see above}\n" + ", # [next]\n".join(lines) + " /* that's all */\n}"


def _quoted_names(said: Any, before: str, behind: str) -> str:
    if isinstance(said, dict):
        fields = cast("Said", said).items()
        return (
            "{"
            + ", ".join(f"{before}{key}{behind}: {_quoted_names(value, before, behind)}" for key, value in fields)
            + "}"
        )
    if isinstance(said, list):
        return "[" + ", ".join(_quoted_names(value, before, behind) for value in said) + "]"
    return dumped(said)


_DRAFT = '{"draft": [1, 2, {"note": "not yet"}]}'

#: What models think before they answer: with braces, quotes and a draft in it.
THOUGHT = f"Okay, let's see {{x}}. The user's notes say \"tea\". Maybe [1] or {_DRAFT}?\nWait, no."

_CALL = "call_1"

FORM_WRAPPINGS: Mapping[str, Callable[[Said], str]] = {
    # Around it
    "as it is": dumped,
    "indented": lambda said: dumped(said, indent=4),
    "ascii alone": json.dumps,
    "blanks and a byte order mark": lambda said: f"\ufeff\n\n  {dumped(said)} \n\n",
    "a fence": lambda said: f"```json\n{dumped(said, indent=2)}\n```",
    "a fence without a name": lambda said: f"```\n{dumped(said)}\n```",
    "a fence of tildes": lambda said: f"~~~JSON\n{dumped(said)}\n~~~",
    "a fence on one line": lambda said: f"```json {dumped(said)} ```",
    "a fence that is not closed": lambda said: f"```json\n{dumped(said)}",
    "single backticks": lambda said: f"The answer is `{dumped(said)}`.",
    "prose before": lambda said: f"Sure! Here is the JSON that you asked for:\n\n{dumped(said)}",
    "prose on the line": lambda said: f"**Answer:** {dumped(said)}",
    "prose behind": lambda said: f"{dumped(said)}\n\nI hope that helps! Let me know if [anything] is {{unclear}}.",
    "prose with brackets": lambda said: f"As in [1] and {{so on}}, it's {{ :) }} done:\n{dumped(said)}\n(see [2])",
    "a fence in prose": lambda said: f"Of course.\n```json\n{dumped(said)}\n```\nNote: I left out the rest.",
    "a tag": lambda said: f"<answer>\n{dumped(said)}\n</answer>",
    "marks of a template": lambda said: f"<|im_start|>assistant\n{dumped(said)}<|im_end|>",
    "an end of text": lambda said: f"{dumped(said)}</s>",
    # Reasoning
    "reasoning": lambda said: f"<think>\n{THOUGHT}\n</think>\n\n{dumped(said)}",
    "empty reasoning": lambda said: f"<think>\n\n</think>\n\n{dumped(said)}",
    "reasoning in capitals": lambda said: f"<THINKING>{THOUGHT}</THINKING>{dumped(said)}",
    "a lone closing tag": lambda said: f"{THOUGHT}\n</think>\n{dumped(said)}",
    "reasoning that breaks off behind": lambda said: f"{dumped(said)}\n<reasoning>\n{THOUGHT} {dumped(said)[:9]}",
    "channels": lambda said: (
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final <|constrain|>json"
        f"<|message|>{dumped(said)}<|return|>"
    ),
    # Several values
    "a draft before": lambda said: f"First try:\n{_DRAFT}\n\nCorrected:\n{dumped(said)}",
    "the schema behind": lambda said: f"{dumped(said)}\n\nSchema: {dumped({'type': 'object', 'properties': {}})}",
    # Other writing
    "trailing commas": _with_commas,
    "comments": _commented,
    "Python's literals": repr,
    "smart quotes round the names": lambda said: _quoted_names(said, "\u201c", "\u201d"),
    "names without quotes": lambda said: _quoted_names(said, "", ""),
    "line breaks in texts": lambda said: dumped(said).replace("\\n", "\n"),
    "names as titles": lambda said: dumped(_renamed(said, lambda key: key.replace("_", " ").title())),
    "names in camel case, choices in capitals": lambda said: dumped(_renamed(_each(said, _loud), _camel)),
    "numbers as texts and texts as numbers": lambda said: dumped(_each(_each(said, _other_kind), _titled)),
    # Other shapes
    "what is empty left out": lambda said: dumped(_without_nothing(said)),
    "null for what is empty": lambda said: dumped(_with_nulls(said)),
    "a bare list": lambda said: dumped(_bare(said), indent=1),
    "a wrapper": lambda said: dumped({"thought": "as asked", "result": said}),
    "a call of a function": lambda said: dumped(
        [{"id": _CALL, "type": "function", "function": {"name": "answer", "arguments": dumped(said)}}]
    ),
}


TEXT_WRAPPINGS: Mapping[str, Callable[[str], str]] = {
    # Around it
    "as it is": str,
    "blanks": lambda text: f"\n \t{text}\n\n ",
    "a fence": lambda text: f"```\n{text}\n```",
    "a fence with a name": lambda text: f"```text\n{text}\n```",
    "a fence of markdown": lambda text: f"```markdown\n{text}\n```\n",
    "a fence of tildes": lambda text: f"~~~\n{text}\n~~~",
    "a long fence": lambda text: f"`````\n{text}\n`````",
    "a fence on one line": lambda text: f"```text {text} ```",
    "a tag": lambda text: f"<answer>{text}</answer>",
    "a tag on its lines": lambda text: f"<output>\n{text}\n</output>\n",
    "a final tag": lambda text: f"<final_answer>\n{text}\n</final_answer>",
    "an end of a turn": lambda text: f"{text}<end_of_turn>",
    "an end mark": lambda text: f"{text}<|eot_id|>",
    "marks of a template": lambda text: f"<|im_start|>assistant\n{text}<|im_end|>\n<|endoftext|>",
    "an end of text": lambda text: f"<s> {text}</s>",
    # Reasoning
    "reasoning": lambda text: f"<think>\n{THOUGHT}\n</think>\n\n{text}",
    "empty reasoning": lambda text: f"<think>\n\n</think>\n\n{text}",
    "thinking": lambda text: f"<thinking>{THOUGHT}</thinking>\n{text}",
    "a thought": lambda text: f"<thought>\n{THOUGHT}\n</thought>\n{text}",
    "reasoning by its name": lambda text: f"<reasoning>\n{THOUGHT}\n</reasoning>\n{text}",
    "analysis": lambda text: f"<analysis>\n{THOUGHT}\n</analysis>\n{text}",
    "a scratchpad": lambda text: f"<scratchpad>\n{THOUGHT}\n</scratchpad>\n\n{text}",
    "reasoning in capitals": lambda text: f"<THINK>{THOUGHT}</THINK>{text}",
    "reasoning in brackets": lambda text: f"[THINK]{THOUGHT}[/THINK]{text}",
    "reasoning in marks": lambda text: f"\u25c1think\u25b7{THOUGHT}\u25c1/think\u25b7{text}",
    "reasoning in tokens": lambda text: f"<|START_THINKING|>{THOUGHT}<|END_THINKING|>{text}",
    "thought and solution": lambda text: (
        f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|>\n\n<|begin_of_solution|>\n{text}\n<|end_of_solution|>"
    ),
    "a lone closing tag": lambda text: f"{THOUGHT}\n</think>\n\n{text}",
    "reasoning twice": lambda text: f"<think>{THOUGHT}</think>\n<think>{THOUGHT}</think>\n{text}",
    "reasoning in reasoning": lambda text: f"<think>{THOUGHT}\n<think>so</think>\nyes</think>\n{text}",
    "reasoning that breaks off behind": lambda text: f"{text}\n<think>\n{THOUGHT}",
    "channels": lambda text: (
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{text}<|return|>"
    ),
    "channels without marks": lambda text: f"analysis{THOUGHT}assistantfinal{text}",
    # What announces it
    "an announcement": lambda text: f"Here is the merged memory:\n\n{text}",
    "a polite announcement": lambda text: f"Sure! Here's the shortened version:\n{text}",
    "a polite word": lambda text: f"Certainly!\n\n{text}",
    "a label": lambda text: f"Answer: {text}",
    "a bold label": lambda text: f"**Summary:**\n{text}",
    "an announcement in German": lambda text: f"Hier ist die zusammengefasste Erinnerung:\n\n{text}",
    "reasoning, an announcement and a fence": lambda text: (
        f"<think>{THOUGHT}</think>\nOf course! Here is the summary:\n\n```\n{text}\n```"
    ),
}
