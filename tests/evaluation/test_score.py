"""The stage `evaluate`, and its tables."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from helpers import TINY, write_random_weights
from torch.nn import functional as F
from transformers import GPT2LMHeadModel

from twolevers.data.split import load_split
from twolevers.data.tokenise import tokenise
from twolevers.device import find_device
from twolevers.errors import TrainingError, TwoleversError
from twolevers.evaluation import metrics
from twolevers.evaluation.frames import responses_frame, scores_frame
from twolevers.evaluation.score import Loss, perplexity, score, score_answers, scores_by_kind
from twolevers.files import sha256_of
from twolevers.generation.answers import Answer, write_answers
from twolevers.models.weights import load_model, save_model
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.records import DatasetFile, Responses, Role, ScoredSplit, Scores, TokenisedData
from twolevers.settings import Home


@pytest.fixture
def data(tmp_path: Path, home: Home) -> TokenisedData:
    rows = [{"instruction": f"Say {i}.", "output": f"{i} " * (i % 7 + 1)} for i in range(40)]
    path = tmp_path / "data.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    dataset = DatasetFile(
        name="data.json", path=path, sha256=sha256_of(path), num_bytes=1, verified="local file"
    )
    return tokenise(dataset, DataOptions(loss_on="response"), seed=1, home=home, progress=Silent())


def write(tmp_path: Path, role: Role, answers: list[str]) -> Responses:
    """Three answers of two kinds, and one of none."""
    path = tmp_path / f"{role}.jsonl"
    references = ["red", "two words", "four", "free"]
    kinds = ["naming", "writing", "naming", ""]
    write_answers(
        path,
        [
            Answer(f"Question {i}", "", references[i], answers[i], kinds[i], True, 35 + i)
            for i in range(4)
        ],
    )
    return Responses(
        role=role, path=path, sha256=sha256_of(path), num_responses=4, new_tokens=9, seconds=1
    )


def score_all(
    folder: Path, data: TokenisedData, responses: Responses, split: ScoredSplit = "test"
) -> Scores:
    return score(
        responses.role,
        folder,
        data,
        responses,
        config=None,
        device=find_device("cpu"),
        precision="float32",
        batch_size=3,
        split=split,
    )


def mean_loss_by_transformers(
    folder: Path, data: TokenisedData, split: str, places: list[int] | None = None
) -> float:
    """Row by row, of the split or those at `places` in it, all logits, nats per response token."""
    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    total, tokens = 0.0, 0
    rows = list(load_split(data, split))  # type: ignore[arg-type]
    for row in rows if places is None else [rows[place] for place in places]:
        ids = torch.tensor(row.token_ids)
        with torch.no_grad():
            logits = model(ids[None]).logits[0]
        first = row.prompt_length
        total += F.cross_entropy(logits[first - 1 : -1], ids[first:], reduction="sum").item()
        tokens += len(ids) - first
    return total / tokens


def test_losses_and_scores_of_a_model(data: TokenisedData, tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path / "weights", TINY)
    scores = score_all(folder, data, write(tmp_path, "tuned", ["red", "two birds", "five", "free"]))
    assert scores.val_loss == pytest.approx(
        mean_loss_by_transformers(folder, data, "val"), rel=1e-5
    )
    test_loss = mean_loss_by_transformers(folder, data, "test")
    assert scores.test_loss == pytest.approx(test_loss, rel=1e-5)
    assert scores.perplexity == pytest.approx(math.exp(test_loss), rel=1e-3)
    assert (scores.role, scores.num_scored) == ("tuned", 4)
    assert scores.exact_match == 0.5
    assert scores.token_f1 == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert scores.other == {
        "normalised_match": 0.5,
        "length_ratio": 1.0,
        "repetition_rate": 0.0,
        "never_ended": 0.0,
    }
    assert list(scores.by_kind) == ["naming", "writing"]  # an entry without a kind is in none
    assert scores.by_kind["naming"]["count"] == 2
    assert scores.by_kind["naming"]["exact_match"] == 0.5
    assert scores.by_kind["writing"]["token_f1"] == 0.5
    # The answers are those of rows 35 to 38, the test split.
    naming = mean_loss_by_transformers(folder, data, "test", [0, 2])
    assert scores.by_kind["naming"]["test_loss"] == pytest.approx(naming, abs=1e-4)
    assert scores.by_kind["naming"]["perplexity"] == pytest.approx(math.exp(naming), rel=1e-4)
    assert {*scores.by_kind["naming"]} > {"length_ratio", "repetition_rate", "never_ended"}
    assert Scores.model_validate_json(scores.model_dump_json()) == scores


@pytest.mark.parametrize("split", ["all"])
def test_the_loss_is_of_the_split_that_is_scored(
    data: TokenisedData, tmp_path: Path, split: ScoredSplit
) -> None:
    folder = write_random_weights(tmp_path / "weights", TINY)
    answers = write(tmp_path, "tuned", ["red", "two birds", "five", "free"])
    scores = score_all(folder, data, answers, split)
    assert scores.test_loss == pytest.approx(
        mean_loss_by_transformers(folder, data, split), rel=1e-5
    )
    assert scores.val_loss is None


def test_a_metric_added_stands_in_the_scores(
    data: TokenisedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(metrics.METRICS, "always_half", lambda references, answers: 0.5)
    folder = write_random_weights(tmp_path / "weights", TINY)
    scores = score_all(folder, data, write(tmp_path, "base", ["a", "b", "c", "d"]))
    assert scores.other["always_half"] == 0.5
    assert scores.by_kind["writing"]["always_half"] == 0.5


def test_a_loss_that_is_no_number_is_an_error(data: TokenisedData, tmp_path: Path) -> None:
    model = load_model(write_random_weights(tmp_path / "weights", TINY))
    with torch.no_grad():
        model.ln_f.bias.fill_(float("nan"))
    broken = tmp_path / "broken"
    broken.mkdir()
    save_model(model, broken)
    with pytest.raises(TrainingError, match="the loss on the val split is nan"):
        score_all(broken, data, write(tmp_path, "base", ["a", "b", "c", "d"]))


def test_answers_of_the_other_model_are_refused(data: TokenisedData, tmp_path: Path) -> None:
    responses = write(tmp_path, "base", ["a", "b", "c", "d"]).model_copy(update={"role": "tuned"})
    with pytest.raises(TwoleversError, match="holds the tuned model's answers"):
        score(
            "base",
            tmp_path,
            data,
            responses,
            config=None,
            device=find_device("cpu"),
            precision="float32",
            batch_size=3,
        )


def test_answers_that_never_ended_are_counted() -> None:
    answers = [Answer("Q", "", "x", "y", kind, ended, 1) for kind, ended in
               (("a", True), ("a", False), ("b", True), ("", True))]  # fmt: skip
    assert score_answers(answers)["never_ended"] == 0.25
    assert scores_by_kind(answers, {1: Loss(2.0, 1)})["a"]["never_ended"] == 0.5


@pytest.mark.parametrize("loss", [0.0, 10.8, 709.0, 710.0, 1e30])
def test_perplexity_is_a_number_that_json_can_hold(loss: float) -> None:
    value = perplexity(loss)
    assert json.loads(json.dumps(value)) == value >= 1
    if loss < 700:
        assert value == math.exp(loss)


def test_responses_as_a_table(tmp_path: Path) -> None:
    base = write(tmp_path, "base", ["blue", "two words", "", "x"])
    tuned = write(tmp_path, "tuned", ["red", "two birds", "four", "free"])
    table = responses_frame(base, tuned)
    assert table["row"].tolist() == [35, 36, 37, 38]
    assert table["kind"].tolist() == ["naming", "writing", "naming", ""]
    assert table["base"].tolist() == ["blue", "two words", "", "x"]
    assert table["tuned_exact_match"].tolist() == [1, 0, 1, 1]
    assert table["tuned_token_f1"].tolist() == [1, 0.5, 1, 1]
    assert table["base_exact_match"].tolist() == [0, 1, 0, 0]
    assert table["tuned_ended"].all()


def test_responses_to_other_entries_make_no_table(tmp_path: Path) -> None:
    base = write(tmp_path, "base", ["a", "b", "c", "d"])
    path = tmp_path / "tuned.jsonl"
    write_answers(path, [Answer("Else", "", "x", "y", "", True, 1)] * 4)
    tuned = base.model_copy(update={"role": "tuned", "path": path})
    with pytest.raises(TwoleversError, match="do not answer the same entries"):
        responses_frame(base, tuned)


def test_scores_as_a_table() -> None:
    def scores(role: Role, exact: float) -> Scores:
        return Scores(
            role=role,
            val_loss=2.0 - exact,
            test_loss=2.0,
            perplexity=7.4,
            exact_match=exact,
            token_f1=0.5,
            rouge_l=0.5,
            chrf=0.5,
            num_scored=110,
            other={"more": 0.1},
            by_kind={"naming": {"count": 30, "exact_match": exact}},
        )

    table = scores_frame(scores("base", 0.0), scores("tuned", 0.75))
    assert table["metric"].tolist() == [
        "val_loss",
        "test_loss",
        "perplexity",
        "exact_match",
        "token_f1",
        "rouge_l",
        "chrf",
        "more",
        "exact_match",
    ]
    exact = table[table["metric"] == "exact_match"]
    assert exact["kind"].tolist() == ["all", "naming"]
    assert exact["count"].tolist() == [110, 30]
    assert exact["change"].tolist() == [0.75, 0.75]
    assert table["change"][0] == -0.75
