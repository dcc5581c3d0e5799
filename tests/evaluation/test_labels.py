"""Labels chosen by likelihood, against a computation without batches, prefix or packing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import write_random_weights

from twolevers.data.prompt import Entry, alpaca
from twolevers.data.tokenise import tokenise
from twolevers.data.tokenizer import get_tokenizer
from twolevers.device import Device
from twolevers.errors import InputError
from twolevers.evaluation.labels import closed_sets, label_likelihoods, label_scores
from twolevers.files import sha256_of, write_json
from twolevers.models.attention import plain_causal_within
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.records import DatasetFile, TokenisedData
from twolevers.settings import Home

TINY = GPT2Config(emb_dim=32, num_layers=2, num_heads=4)
CPU = Device("cpu", "a processor", 1, 0)
END = 50256


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GPT2:
    return load_model(write_random_weights(tmp_path_factory.mktemp("weights"), TINY)).eval()


@torch.no_grad()
def plain(model: GPT2, prompt: list[int], label: list[int]) -> float:
    """The sum of log-probabilities of a label and the end of text, token by token."""
    ids = [*prompt, *label, END]
    hidden = model(torch.tensor(ids), torch.arange(len(ids)), plain_causal_within([len(ids)]))
    logs = model.logits(hidden).log_softmax(-1)
    return sum(logs[t - 1, ids[t]].item() for t in range(len(prompt), len(ids)))


@pytest.mark.parametrize(
    "labels",
    [[[5], [6], [7, 8]], [[5, 6], [5, 6, 7], [5]], [[9, 10, 11]], [[1], [2]]],
    ids=["apart", "one begins another", "one alone", "single tokens"],
)
def test_likelihood_as_token_by_token(model: GPT2, labels: list[list[int]]) -> None:
    prompt = [15496, 11, 995, 0]
    sums, means = label_likelihoods(model, prompt, labels)
    expected = torch.tensor([plain(model, prompt, label) for label in labels], dtype=torch.float64)
    torch.testing.assert_close(sums, expected, atol=1e-4, rtol=0)
    lengths = torch.tensor([len(label) + 1 for label in labels])
    torch.testing.assert_close(means, expected / lengths, atol=1e-4, rtol=0)


def entries(kind: str, *outputs: str) -> list[Entry]:
    return [Entry("do", str(number), output, kind) for number, output in enumerate(outputs)]


def test_closed_sets() -> None:
    found = closed_sets(
        [
            *entries("few", *("yes", "no ", "no") * 3),
            *entries("one", *["same"] * 9),
            *entries(
                "many",
                *(str(n) for n in range(11)),
                *(str(n) for n in range(11)),
                *(str(n) for n in range(11)),
            ),
            *entries("rare", "a", "b", "c", "a", "b"),
        ]
    )
    assert found == {"few": ("no", "yes")}


def tokenised(folder: Path, rows: list[dict[str, str]]) -> TokenisedData:
    file = folder / "rows.json"
    write_json(file, rows)
    dataset = DatasetFile(
        name="rows", path=file, sha256=sha256_of(file), num_bytes=1, verified="local file"
    )
    return tokenise(dataset, DataOptions(), seed=1, home=Home(folder), progress=Silent())


def make_rows(count: int = 60) -> list[dict[str, str]]:
    return [
        {
            "instruction": "Which colour is it?" if n % 2 else f"Say {n}.",
            "input": f"thing {n}",
            "output": ("red", "dark blue")[n // 2 % 2] if n % 2 else f"It is {n}.",
            "kind": "colour" if n % 2 else "number",
        }
        for n in range(count)
    ]


def test_scores_of_a_model(model: GPT2, tmp_path: Path) -> None:
    """Every test entry of the kind asked about, each label as likely as token by token."""
    weights, rows = write_random_weights(tmp_path / "weights", TINY), make_rows(80)
    data = tokenised(tmp_path, rows)
    asked = [(n + 1, row) for n, row in enumerate(rows) if 68 <= n < 76 and n % 2]
    # Two answers right in other writing, one wrong, one that is no label.
    written = [asked[0][1]["output"].upper(), f"{asked[1][1]['output']}.", "", "purple"]
    written[2] = "red" if asked[2][1]["output"] != "red" else "dark blue"
    [found] = label_scores(
        weights,
        data,
        config=None,
        device=CPU,
        precision="float32",
        answers={number: text for (number, _), text in zip(asked, written, strict=True)},
        progress=Silent(),
    )
    assert (found.kind, found.labels, found.num) == ("colour", ("dark blue", "red"), 4)
    free = found.by_method["free generation"]
    assert (free.accuracy, found.num_no_label) == (0.5, 1)
    assert sum(row[2] for row in free.confusion) == 1
    encode = get_tokenizer().encode
    right = {"likelihood": 0, "likelihood a token": 0}
    for _, row in asked:
        prompt = encode(alpaca(Entry(**row)))
        sums = [plain(model, prompt, encode(label)) for label in found.labels]
        means = [s / (len(encode(one)) + 1) for s, one in zip(sums, found.labels, strict=True)]
        for method, values in zip(right, (sums, means), strict=True):
            right[method] += found.labels[values.index(max(values))] == row["output"]
    for method, count in right.items():
        assert found.by_method[method].accuracy == count / 4


def test_data_without_labels_is_refused(tmp_path: Path) -> None:
    rows = [row | {"output": f"answer {n}"} for n, row in enumerate(make_rows())]
    data = tokenised(tmp_path, rows)
    with pytest.raises(InputError, match="no kind of task has a closed set of outputs"):
        label_scores(
            tmp_path, data, config=None, device=CPU, precision="float32", answers=None,
            progress=Silent(),
        )  # fmt: skip


def test_options_are_the_labels_however_few_the_entries() -> None:
    def choice(output: str, *options: str) -> Entry:
        return Entry("Which?", "", output, kind="choice", options=options)

    two = [choice("yes", "yes", "no"), choice("yes", "yes", "no")]
    assert closed_sets(two) == {"choice": ("no", "yes")}
    assert closed_sets([*two, choice("yes")]) == {}, "one names none, and all say yes"
    letters = "abcdefghijkl"
    assert closed_sets([choice("a", *letters)]) == {}, "more than ten"
