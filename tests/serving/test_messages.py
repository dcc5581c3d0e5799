"""How a chat becomes the prompt that the model was trained with."""

from __future__ import annotations

import pytest

from twolevers.data.prompt import find_style
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


def test_system_messages_stand_before_and_earlier_turns_in_the_input() -> None:
    assert rendered(
        ("system", "Be short."),
        ("user", "Capital of Peru?"),
        ("assistant", "Lima."),
        ("user", "And of Chile?"),
    ) == (
        PREAMBLE + "### Instruction:\nBe short.\n\nAnd of Chile?"
        "\n\n### Input:\nUser: Capital of Peru?\nAssistant: Lima.\n\n### Response:\n"
    )


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
