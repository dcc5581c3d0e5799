"""Likelihoods against transformers, and the evaluation harness's own arithmetic on top of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from helpers import TINY, write_random_weights
from transformers import GPT2LMHeadModel

from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.device import Device
from twolevers.errors import InputError, TwoleversError
from twolevers.evaluation.likelihood import likelihoods
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model

CONFIG = GPT2Config(emb_dim=TINY.emb_dim, num_layers=2, num_heads=4, context_length=24)
CPU = Device("cpu", "x", 1, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_weights(tmp_path_factory.mktemp("weights"), CONFIG)


@pytest.fixture(scope="module")
def model(folder: Path) -> GPT2:
    return load_model(folder, CONFIG)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> GPT2LMHeadModel:
    return GPT2LMHeadModel.from_pretrained(folder).eval()


@torch.no_grad()
def expected(
    theirs: GPT2LMHeadModel, context: list[int], continuation: list[int]
) -> tuple[float, bool]:
    """The plain way: all logits of one sequence, softmax, the targets' entries."""
    ids = torch.tensor([*context, *continuation])[None, -(CONFIG.context_length + 1) :]
    logprobs = theirs(ids[:, :-1]).logits[0, -len(continuation) :].double().log_softmax(-1)
    targets = torch.tensor(continuation)
    total = logprobs.gather(1, targets[:, None]).sum().item()
    return total, bool((logprobs.argmax(-1) == targets).all())


def test_they_equal_those_of_transformers(model: GPT2, theirs: GPT2LMHeadModel) -> None:
    contexts = [[5, 6, 7], [9], list(range(100, 140)), [5, 6, 7]]
    pairs = [(context, [11 + i, 500]) for i, context in enumerate(contexts)]
    pairs.append(([3] * 30, list(range(40, 64))))  # a continuation as long as the model sees
    likeliest = int(theirs(torch.tensor([[5, 6, 7]])).logits[0, -1].argmax())
    pairs.append(([5, 6, 7], [likeliest]))
    found = likelihoods(model, pairs)
    for (context, continuation), one in zip(pairs, found, strict=True):
        total, greedy = expected(theirs, context, continuation)
        assert one.logprob == pytest.approx(total, abs=2e-4)
        assert (one.greedy, one.num_tokens) == (greedy, len(continuation))
    assert found[-1].greedy
    assert likelihoods(model, []) == []


def test_the_harness_chooses_by_them(
    model: GPT2, theirs: GPT2LMHeadModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    from twolevers.evaluation.harness import HarnessModel, evaluate_tasks

    questions = [
        ("The sky is", ["blue", "green", "stone"], 0),
        ("Grass is", ["blue", "green"], 1),
        ("Snow is", ["white", "black"], 0),
        ("A raven is", ["white", "black"], 1),
    ]
    lines = [json.dumps(dict(zip("qca", one, strict=True))) for one in questions]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "colours.yaml").write_text(
        "task: colours\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
        f"    test: {data}\ntest_split: test\noutput_type: multiple_choice\n"
        'doc_to_text: "{{q}}"\ndoc_to_choice: "{{c}}"\ndoc_to_target: "{{a}}"\n'
        "metric_list:\n  - metric: acc\n",
        encoding="utf-8",
    )
    asked = HarnessModel(model, CPU, "float32")
    found = evaluate_tasks(asked, ["colours"], folder=tmp_path)

    encode = get_tokenizer().encode
    right = 0
    for question, choices, answer in questions:
        totals = [expected(theirs, encode(question), encode(f" {choice}"))[0] for choice in choices]
        right += totals.index(max(totals)) == answer
    assert found["colours"]["acc"] == right / len(questions)
    assert {"colours"} == set(found)

    with pytest.raises(InputError, match=r"--task-folder .* is no folder"):
        evaluate_tasks(asked, ["colours"], folder=tmp_path / "none")
    data.unlink()
    with pytest.raises(TwoleversError, match="colours cannot be run: FileNotFoundError"):
        evaluate_tasks(asked, ["colours"], folder=tmp_path)


def test_the_harness_reads_long_texts_in_windows(model: GPT2, theirs: GPT2LMHeadModel) -> None:
    from lm_eval.api.instance import Instance

    from twolevers.evaluation.harness import HarnessModel

    text = "The cook washed the plates and put them where they had been. " * 3
    ids = get_tokenizer().encode(text)
    assert 24 < len(ids) < 48
    first, rest = ids[:24], ids[24:]
    request = Instance("loglikelihood_rolling", {}, (text,), 0)
    [total] = HarnessModel(model, CPU, "float32").loglikelihood_rolling([request])
    # The second window has as many tokens before it as the model sees.
    wanted = expected(theirs, [END_OF_TEXT], first)[0] + expected(theirs, first, rest)[0]
    assert total == pytest.approx(wanted, abs=5e-4)


def test_the_harness_gets_answers_cut_at_its_stops(model: GPT2) -> None:
    from lm_eval.api.instance import Instance

    from twolevers.evaluation.harness import HarnessModel

    asked = HarnessModel(model, CPU, "float32")

    def answer(**arguments: object) -> str:
        request = Instance("generate_until", {}, ("A long way " * 20, arguments), 0)
        return asked.generate_until([request])[0]

    whole = answer(max_gen_toks=6, until=[])
    assert len(get_tokenizer().encode(whole)) >= 1
    middle = whole[len(whole) // 2 :]
    assert answer(max_gen_toks=6, until=["never there", middle]) == whole[: whole.index(middle)]
