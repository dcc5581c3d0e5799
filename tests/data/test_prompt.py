"""Prompt styles, word for word."""

import pytest

from twolevers.data.prompt import PROMPT_STYLES, Entry, PromptStyle, find_style
from twolevers.errors import InputError

SPELL = Entry("Correct the spelling.", "freind", "friend")
ASK = Entry("Name a colour.", "", "Blue.")


def test_alpaca_as_in_the_chapter() -> None:
    preamble = (
        "Below is an instruction that describes a task. "
        "Write a response that appropriately completes the request.\n\n"
    )
    assert find_style("alpaca").render(SPELL) == (
        preamble + "### Instruction:\nCorrect the spelling.\n\n### Input:\nfreind"
        "\n\n### Response:\n",
        "friend",
    )
    assert find_style("alpaca").render(ASK) == (
        preamble + "### Instruction:\nName a colour.\n\n### Response:\n",
        "Blue.",
    )


def test_phi3_as_in_the_exercise() -> None:
    prompt = "<|user|>\nCorrect the spelling.\nfreind\n<|assistant|>:\n"
    assert find_style("phi3").render(SPELL) == (prompt, "friend")
    assert find_style("phi3").render(ASK)[0] == "<|user|>\nName a colour.\n<|assistant|>:\n"


def test_every_style_ends_with_its_marker_and_differs() -> None:
    assert len({style.render(SPELL)[0] for style in PROMPT_STYLES.values()}) == len(PROMPT_STYLES)


@pytest.mark.parametrize("marker", ["### Answer:\n", ""])
def test_a_marker_that_the_prompt_lacks(marker: str) -> None:
    style = PromptStyle("odd", "", find_style("alpaca").prompt, marker)
    with pytest.raises(InputError, match=r"prompt style odd.*does not end with it.*Response"):
        style.render(SPELL)


def test_an_unknown_style() -> None:
    with pytest.raises(InputError, match=r"'alpacca': no such.*did you mean 'alpaca'.*phi3"):
        find_style("alpacca")
