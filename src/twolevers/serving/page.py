"""A page on which two models answer side by side and a person says which answer is better.

Gradio is an extra of the package and is imported only where the page is made.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twolevers.data.prompt import Entry
from twolevers.errors import TwoleversError
from twolevers.serving.engine import CutError, Piece
from twolevers.serving.preferences import Preference
from twolevers.serving.served import ServedModel

if TYPE_CHECKING:
    import gradio

LOCAL_FONTS = ["ui-sans-serif", "system-ui", "sans-serif"]
"""Gradio's own choice would be fetched from elsewhere."""


@dataclass(frozen=True)
class Answered:
    """What was asked, and both answers."""

    entry: Entry
    base: str
    tuned: str


def answers(base: ServedModel, tuned: ServedModel, entry: Entry) -> Iterator[Answered]:
    """Both answers as they come, each time anything has come of either.

    Raises:
        InputError, FullError, ClosingError, CutError: as `ServedModel.ask`.
    """
    arrived: queue.SimpleQueue[tuple[str, Piece]] = queue.SimpleQueue()
    texts = {"base": "", "tuned": ""}
    models = {"base": base, "tuned": tuned}
    tickets = []
    try:
        for role, model in models.items():
            deliver = _labelled(role, arrived)
            tickets.append(model.engine.submit(model.request(entry), deliver))
        under_way = set(texts)
        while under_way:
            role, piece = arrived.get()
            if piece.reason not in (None, "stop", "length"):
                raise CutError(piece.reason, f"{models[role].name}: {piece.message}")
            texts[role] += piece.text
            if piece.reason is not None:
                under_way.remove(role)
            yield Answered(entry, **texts)
    finally:
        for ticket in tickets:
            ticket.cancel()


def preference(
    base: ServedModel, tuned: ServedModel, answered: Answered, *, tuned_is_better: bool
) -> Preference:
    """The choice that a person made."""
    of_both = [(answered.base, base.name), (answered.tuned, tuned.name)]
    (rejected, rejected_model), (chosen, chosen_model) = (
        of_both if tuned_is_better else of_both[::-1]
    )
    return Preference(
        prompt=tuned.style.render(answered.entry)[0],
        chosen=chosen,
        rejected=rejected,
        chosen_model=chosen_model,
        rejected_model=rejected_model,
        instruction=answered.entry.instruction,
        input=answered.entry.input,
    )


def make_page(
    base: ServedModel, tuned: ServedModel, keep: Callable[[Preference], None]
) -> gradio.Blocks:
    """The page.

    Args:
        keep: takes every choice.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when it is imported
    import gradio as gr

    def ask(instruction: str, text: str) -> Iterator[tuple[Any, ...]]:
        no, answered = gr.Button(interactive=False), None
        yield "", "", no, no, "Both are asked …", None
        try:
            for answered in answers(base, tuned, Entry(instruction, text, output="")):
                yield answered.base, answered.tuned, no, no, "", answered
        except TwoleversError as error:
            yield "", "", no, no, str(error), None
            return
        if answered is not None:
            differ = answered.base != answered.tuned
            choose = gr.Button(interactive=differ)
            said = "Which one is better?" if differ else "Both say the same."
            yield answered.base, answered.tuned, choose, choose, said, answered

    def choose(answered: Answered, tuned_is_better: bool) -> tuple[Any, ...]:
        chosen = preference(base, tuned, answered, tuned_is_better=tuned_is_better)
        keep(chosen)
        no = gr.Button(interactive=False)
        return no, no, f"Kept: {chosen.chosen_model} was better."

    with gr.Blocks(title=f"twolevers: {tuned.name}", analytics_enabled=False) as page:
        gr.Markdown(f"## {base.name} beside {tuned.name}")
        # One line to begin with: Gradio's Enter asks there, and is a new line in a taller box.
        instruction = gr.Textbox(label="Instruction", lines=1, max_lines=20, autofocus=True)
        text = gr.Textbox(label="Input, if it is about a text", lines=2)
        button = gr.Button("Ask both", variant="primary")
        sides, marks = [], []
        with gr.Row():
            for role, model in (("base", base), ("tuned", tuned)):
                with gr.Column():
                    label = f"{role}: {model.name}"
                    sides.append(gr.Textbox(label=label, lines=8, interactive=False))
                    marks.append(gr.Button(f"The {role} model's is better", interactive=False))
        said = gr.Markdown()
        answered = gr.State()
        outputs = [*sides, *marks, said, answered]
        together = base.engine.max_batch
        for event in (button.click, instruction.submit):
            event(
                ask,
                [instruction, text],
                outputs,
                concurrency_limit=together,
                show_progress="hidden",  # the answers themselves show it
            )
        for mark, tuned_is_better in zip(marks, (False, True), strict=True):
            choice = _with(choose, tuned_is_better)
            mark.click(choice, answered, [*marks, said], show_progress="hidden")
    return page


def show_page(page: gradio.Blocks, port: int) -> str:
    """Opens it on loopback; its address. It goes on in a thread until `page.close()`."""
    import gradio as gr

    theme = gr.themes.Default(font=LOCAL_FONTS, font_mono=["ui-monospace", "monospace"])
    _, address, _ = page.launch(
        server_name="127.0.0.1",
        server_port=port,
        share=False,
        quiet=True,
        ssr_mode=False,
        prevent_thread_lock=True,
        theme=theme,
        footer_links=[],
    )
    return str(address)


def _labelled(role: str, arrived: queue.SimpleQueue[tuple[str, Piece]]) -> Callable[[Piece], None]:
    return lambda piece: arrived.put((role, piece))


def _with(
    choose: Callable[[Answered, bool], tuple[Any, ...]], tuned_is_better: bool
) -> Callable[[Answered], tuple[Any, ...]]:
    return lambda answered: choose(answered, tuned_is_better)
