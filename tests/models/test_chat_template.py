"""The chat templates of exported models: the prompt that `twolevers serve` makes, to the letter."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from twolevers.data.chat_template import chat_template
from twolevers.data.prompt import PROMPT_STYLES, find_style
from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError
from twolevers.models.export import export_model
from twolevers.serving.messages import ChatAsked
from twolevers.serving.reading import check_asked
from twolevers.serving.shapes import ApiError

Messages = list[dict[str, Any]]
Render = Callable[[Messages], str]

TEXTS = (
    "",
    " \n\t",
    "\n leading and trailing \n\n",
    """He said "no", 'maybe', \\n and \\""",
    "Grüße 😀\u2028 翻译 \x00",
    "two\r\nlines\n",
    "{{ system }} {% raw %} {# no #}",
    "### Response:\n<|assistant|>:\n<|endoftext|>",
)


def said(*turns: tuple[str, object]) -> Messages:
    return [{"role": role, "content": content} for role, content in turns]


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


CHATS = [
    said(("user", "What is the capital of Bulgaria?")),
    *(said(("user", f"Say it: {text}")) for text in TEXTS),
    *(said(("user", parts("Rewrite it.", text))) for text in TEXTS),
    *(said(("user", parts(text, "Rewrite it.", text, "Now."))) for text in TEXTS),
    *(
        said(("system", text), ("user", text), ("assistant", text), ("user", "And?"))
        for text in TEXTS
    ),
    said(("assistant", "I begin."), ("user", "And?")),
    said(("user", "One"), ("user", parts("two", "", "three")), ("assistant", "4"), ("user", "5")),
    said(
        ("user", "One"),
        ("system", "Be short."),
        ("user", "two"),
        ("assistant", None),
        ("user", "three"),
        ("developer", parts("Be", "kind.")),
        ("user", "four"),
    ),
]
REFUSED = [
    [],
    said(("user", "Hi"), ("assistant", "Hello")),
    said(("system", "Be short.")),
    said(("developer", "Be short.")),
    said(("user", " \n")),
    said(("user", parts("", " "))),
    said(("user", [])),
    said(("user", None)),
    [{"role": "user"}],
    said(("user", "Hi"), ("tool", "4"), ("user", "And?")),
    said(("User", "Hi")),
    said(("user", 5)),
    said(("user", [{"type": "image_url", "image_url": {"url": "data:,"}}])),
]


def served(messages: Messages, style: str) -> str:
    """What the endpoint gives the model, or what it refuses with."""
    try:
        return check_asked({"messages": messages}, ChatAsked).prompt(find_style(style))
    except (ApiError, InputError) as error:
        return f"refused: {error}"


def refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def by_transformers(folder: Path) -> Render:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def render(messages: Messages) -> str:
        with_mark, without = (
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=mark)
            for mark in (True, False)
        )
        assert with_mark == without
        ids = tokenizer.apply_chat_template(messages, return_dict=False)
        # The endpoint's own tokens; the words <|endoftext|> alone this takes for the token.
        if "<|endoftext|>" not in with_mark:
            assert ids == get_tokenizer().encode(with_mark)
        assert tokenizer.eos_token == "<|endoftext|>"
        return str(with_mark)

    return render


def by_llama_cpp(file: Path) -> Render:
    """Read back from the file; every setting about white space that a program may have."""
    from gguf import GGUFReader

    reader = GGUFReader(file)
    template = reader.get_field("tokenizer.chat_template").contents()
    assert reader.get_field("tokenizer.ggml.eos_token_id").contents() == 50256

    environments = [
        ImmutableSandboxedEnvironment(trim_blocks=trim, lstrip_blocks=strip)
        for trim in (True, False)
        for strip in (True, False)
    ]
    compiled = [environment.from_string(template) for environment in environments]

    def render(messages: Messages) -> str:
        [text] = {
            one.render(
                messages=messages, add_generation_prompt=True, tools=None, raise_exception=refuse
            )
            for one in compiled
        }
        return text

    return render


PROGRAMS = {"hf": by_transformers, "gguf": by_llama_cpp}


@pytest.fixture(scope="module")
def render(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Render]:
    folder = tmp_path_factory.mktemp("exported")

    @cache
    def exported(form: str, style: str) -> Render:
        output = folder / f"{form}-{style}"
        export_model(tiny_folder, form, output, name="tiny", prompt_style=style)
        return PROGRAMS[form](output)

    return exported


@pytest.mark.parametrize("style", PROMPT_STYLES)
@pytest.mark.parametrize("form", PROGRAMS)
def test_a_chat_becomes_the_prompt_that_serve_makes(
    render: Callable[..., Render], form: str, style: str
) -> None:
    for messages in CHATS:
        expected = served(messages, style)
        assert not expected.startswith("refused"), messages
        assert render(form, style)(messages) == expected, messages


@pytest.mark.parametrize("style", PROMPT_STYLES)
@pytest.mark.parametrize("form", PROGRAMS)
def test_what_serve_refuses_is_refused_with_its_words(
    render: Callable[..., Render], form: str, style: str
) -> None:
    for messages in REFUSED if form == "gguf" else REFUSED[1:]:  # transformers wants a first one
        with pytest.raises(jinja2.TemplateError) as refused:
            render(form, style)(messages)
        assert f"refused: {refused.value}" == served(messages, style)


def test_tools_are_refused_as_by_serve() -> None:
    template = ImmutableSandboxedEnvironment().from_string(chat_template("alpaca"))

    told = {"messages": CHATS[0], "tools": [{"type": "function", "function": {"name": "f"}}]}
    with pytest.raises(jinja2.TemplateError) as refused:
        template.render(**told, raise_exception=refuse)
    with pytest.raises(InputError) as by_serve:
        check_asked({**told, "tools": [{"type": "function"}] * 9}, ChatAsked)
    assert str(refused.value) == str(by_serve.value)


def test_without_a_prompt_style_there_is_no_template(tiny_folder: Path, tmp_path: Path) -> None:
    export_model(tiny_folder, "hf", tmp_path / "hf", name="tiny")
    export_model(tiny_folder, "gguf", tmp_path / "gguf", name="tiny")
    assert not (tmp_path / "hf" / "chat_template.jinja").exists()
    assert b"tokenizer.chat_template" not in (tmp_path / "gguf").read_bytes()


def test_a_style_that_is_not_known_writes_nothing(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such prompt style \(did you mean 'alpaca'\?\)"):
        export_model(tiny_folder, "hf", tmp_path / "hf", name="tiny", prompt_style="alpacca")
    assert not list(tmp_path.iterdir())
