"""How a chat becomes the prompt that the model was trained with."""

from __future__ import annotations

import pytest

from twolevers.data.chat import read_turns
from twolevers.data.prompt import Entry, find_style
from twolevers.errors import InputError
from twolevers.serving.messages import ChatAsked

PREAMBLE = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request.\n\n"
)


def rendered(*messages: tuple[str, object], style: str = "alpaca") -> str:
    said = [{"role": role, "content": content} for role, content in messages]
    return ChatAsked.model_validate({"messages": said}).prompt(find_style(style))


def test_one_message_is_the_instruction_as_the_chapter_renders_it() -> None:
    assert rendered(("user", "Name a colour.")) == (
        PREAMBLE + "### Instruction:\nName a colour.\n\n### Response:\n"
    )
    assert rendered(("user", "Name a colour."), style="phi3") == (
        "<|user|>\nName a colour.\n<|assistant|>:\n"
    )


def test_further_text_parts_are_the_input() -> None:
    parts = [{"type": "text", "text": "Make it passive."}, {"type": "text", "text": "He ate."}]
    assert rendered(("user", parts)) == (
        PREAMBLE + "### Instruction:\nMake it passive.\n\n### Input:\nHe ate.\n\n### Response:\n"
    )
    assert rendered(("user", [{"type": "text", "text": " \n"}, *parts])) == rendered(
        ("user", parts)
    )


def test_earlier_turns_stand_as_in_a_chat_that_is_trained_on() -> None:
    said = [
        ("system", "Be short."),
        ("user", "Capital of Peru?"),
        ("assistant", "Lima."),
        ("developer", "Be kind."),
        ("user", "Thanks."),
        ("user", "And of Chile?"),
    ]
    assert rendered(*said) == (
        "Be short.\n\nBe kind.\n\n### Instruction:\nCapital of Peru?\n\n### Response:\nLima.\n\n"
        "### Instruction:\nThanks.\n\n### Instruction:\nAnd of Chile?\n\n### Response:\n"
    )
    turns, faults = read_turns(
        [{"role": role, "content": text} for role, text in [*said[:3], said[5], ("assistant", "x")]]
    )
    assert not faults
    trained = Entry(turns[-2][1], "", turns[-1][1], earlier=tuple(turns[:-2]))
    assert rendered(*said[:3], said[5]) == find_style("alpaca").render(trained)[0]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([("user", "Hi"), ("assistant", "Hello")], "end with a user"),
        ([("system", "Be short.")], "end with a user"),
        ([("user", " \n")], "is empty"),
        ([("user", [])], "is empty"),
        ([("user", None)], "is empty"),
    ],
)
def test_a_chat_without_a_question_is_refused(
    messages: list[tuple[str, object]], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        rendered(*messages)
