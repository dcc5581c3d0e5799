"""The page that shows base and tuned side by side: asked, streamed, and a choice kept."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights
from playwright.sync_api import Page, expect

from twolevers.data.prompt import Entry, alpaca, find_style
from twolevers.device import find_device
from twolevers.generation.answerer import Answerer
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.serving.engine import Engine
from twolevers.serving.preferences import keep_preference, read_preferences
from twolevers.serving.served import ServedModel

OPTIONS = GenerationOptions(max_new_tokens=20)


@dataclass
class Shown:
    """The page, and what lies behind it."""

    address: str
    choices: Path
    base: str
    tuned: str
    """Both models' answers, as `twolevers generate` gives them."""


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    pytest.importorskip("gradio", reason="the extra `chat` is not installed")
    from twolevers.serving.page import make_page, show_page

    device, models, expected = find_device("cpu"), [], []
    for name, seed in (("gpt2-tiny", 1), ("gpt2-tiny-68ca4ca4", 2)):
        folder = write_random_weights(tmp_path / name, TINY, seed=seed)
        engine = Engine(load_model(folder), device)
        models.append(ServedModel(name, engine, find_style("alpaca"), OPTIONS))
        answerer = Answerer(folder, prompt_style="alpaca", device=device)
        expected += answerer.answer([Entry("Name a colour.", "red", "")], OPTIONS, seed=0)
    choices = tmp_path / "preferences.jsonl"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    page = make_page(*models, lambda choice: keep_preference(choices, choice))
    yield Shown(show_page(page, port), choices, *expected)
    page.close(verbose=False)
    for model in models:
        model.engine.close()


# Gradio and what it is built on, whose own warnings say nothing of this page.
@pytest.mark.filterwarnings("ignore:::gradio", "ignore::DeprecationWarning")
def test_both_are_asked_and_the_better_one_is_kept(page: Page, shown: Shown) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(shown.address)
    better = page.get_by_role("button", name="The tuned model's is better")
    expect(better).to_be_disabled()
    page.get_by_label("Instruction").fill("Name a colour.")
    page.get_by_label("Input, if it is about a text").fill("red")
    page.get_by_role("button", name="Ask both").click()
    expect(page.get_by_label("base: gpt2-tiny")).to_have_value(shown.base)
    expect(page.get_by_label("tuned: gpt2-tiny-68ca4ca4")).to_have_value(shown.tuned)
    better.click()
    expect(page.get_by_text("Kept: gpt2-tiny-68ca4ca4 was better.")).to_be_visible()
    expect(better).to_be_disabled()
    [choice] = read_preferences(shown.choices)
    assert (choice.chosen, choice.rejected) == (shown.tuned, shown.base)
    assert choice.prompt == alpaca(Entry("Name a colour.", "red", ""))
    page.get_by_label("Instruction").fill(" ")
    page.get_by_role("button", name="Ask both").click()
    expect(page.get_by_text("instruction: is empty; say what to do")).to_be_visible()
    expect(page.get_by_label("base: gpt2-tiny")).to_have_value("")
    expect(better).to_be_disabled()
    elsewhere = [url for url in asked if not url.startswith((shown.address, "data:", "blob:"))]
    assert elsewhere == []


@pytest.mark.filterwarnings("ignore:::gradio", "ignore::DeprecationWarning")
def test_enter_asks_and_shift_enter_begins_a_line(page: Page, shown: Shown) -> None:
    page.goto(shown.address)
    instruction = page.get_by_label("Instruction")
    page.get_by_label("Input, if it is about a text").fill("red")
    instruction.fill("Name a")
    instruction.press("Shift+Enter")
    expect(instruction).to_have_value("Name a\n")
    instruction.fill("Name a colour.")
    instruction.press("Enter")
    expect(page.get_by_label("tuned: gpt2-tiny-68ca4ca4")).to_have_value(shown.tuned)
    expect(instruction).to_have_value("Name a colour.")
    expect(page.get_by_text("Which one is better?")).to_be_visible()
    assert "common." not in page.content()  # a text of Gradio's that it has no words for
