"""A data set's page: what was found in it, and rows token by token as they are trained on."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import groupby

from twolevers.data.examples import Example, examples_of, visible
from twolevers.data.inspect import Inspection, Pairs
from twolevers.data.split import SPLITS, load_split
from twolevers.data.tokenise import LEDGER_FILE
from twolevers.data.tokenizer import get_tokenizer
from twolevers.data.values import listed
from twolevers.files import read_json
from twolevers.records import TokenisedData
from twolevers.report.pages import render
from twolevers.report.pictures import TRAIN_COLOUR, VAL_COLOUR
from twolevers.report.run_page import data_lines
from twolevers.report.texts import shown

KINDS = {"supervised": "carries loss", "ignored": "carries none", "end": "end of text"}
_SPLIT_NAMES = {"train": "training", "val": "validation", "test": "test"}
_SHOWN_PAIRS, _SHOWN_KINDS = 5, 40


def data_html(found: Inspection) -> str:
    """The page of a data set."""
    return render(
        "data.html",
        title=found.dataset,
        about=f"{found.shape}, SHA-256 {found.data_sha256[:16]}…, prompt style "
        f"{found.prompt_style}, loss on {found.loss_on}"
        + (f"; columns that are not read: {listed(found.unread)}" if found.unread else ""),
        figures=figures(found),
        refusals=found.refusals,
        findings=list(findings(found)),
        picture=b64encode(length_picture(found)).decode(),
        lengths={name: number_text(value) for name, value in found.lengths.items()},
        kinds=_most(found.kinds),
        scripts=found.scripts,
        worst=found.worst,
        examples=list(map(_groups, found.examples)),
        legend=KINDS,
    )


def run_data_html(data: TokenisedData) -> str:
    """The page of what a run was trained on: its counts, and rows of its training split."""
    ledger = read_json(data.path / LEDGER_FILE)
    return render(
        "data.html",
        title=data.dataset,
        about=f"{data.shape or 'entries'}, SHA-256 {data.data_sha256[:16]}…, as the run read it",
        figures={
            "entries": f"{data.num_rows:,}",
            **{_SPLIT_NAMES[split]: f"{getattr(data, f'num_{split}'):,}" for split in SPLITS},
            "dropped": f"{data.num_dropped:,}",
            "cut": f"{data.num_cut:,}",
            "tokens trained on": f"{data.train_tokens:,}",
            "longest": f"{data.longest:,} tokens",
        },
        refusals=[],
        findings=list(data_lines(ledger)),
        picture=None,
        lengths={},
        kinds={},
        scripts=[],
        worst=[],
        examples=list(map(_groups, examples_of(load_split(data, "train")))),
        legend=KINDS,
    )


def figures(found: Inspection) -> dict[str, str]:
    """What a reader wants first."""
    num_entries = found.num_rows - found.num_faulty
    share = found.over_limit / num_entries
    return {
        "rows": f"{found.num_rows:,}",
        **{_SPLIT_NAMES[split]: f"{count:,}" for split, count in found.splits.items()},
        "without input": f"{found.empty_inputs:,}",
        "kinds of task": f"{len(found.kinds):,}" if found.kinds else shown(None),
        "median length": f"{number_text(found.lengths['median'])} tokens",
        f"over {found.max_length:,} tokens": f"{found.over_limit:,} ({share:.1%})",
    }


def findings(found: Inspection) -> Iterator[str]:
    """A sentence for each thing that a person should know before training."""
    if found.shape.startswith("preferences"):
        yield "Preferences: the chosen answers are learned, the rejected ones are not read."
    if found.num_faulty:
        yield f"Rows that are no entries: {found.num_faulty:,} of {found.num_rows:,}."
    if found.dropped is None:
        yield "Too few rows to say what would be dropped, cut, or stand in two splits."
    for one in found.dropped or ():
        yield f"Would be dropped from the {one.split} split: {one.count:,} ({one.reason})."
    if found.num_cut:
        yield f"Would be cut to {found.max_length:,} tokens: {found.num_cut:,}."
    for pairs, what in (
        (found.duplicates, "Entries that repeat an earlier one whole"),
        (found.near_duplicates, "Entries that nearly repeat another"),
        (found.test_entries_in_training, "Test entries that stand whole in training"),
        (
            found.test_prompts_in_training,
            "Test prompts that stand in training with another output",
        ),
        (found.near_test_entries_in_training, "Test entries that nearly repeat one of training"),
        (found.val_entries_in_training, "Validation entries that stand whole in training"),
    ):
        if pairs and pairs.count:
            yield f"{what}: {pairs.count:,} (row {_places(pairs)})."


def _places(pairs: Pairs) -> str:
    """`12 as 3, 15 as 4 (0.91) and 7 more`."""
    texts = [
        f"{row:.0f} as {other:.0f}" + "".join(f" ({alike:.2f})" for alike in rest)
        for row, other, *rest in pairs.first[:_SHOWN_PAIRS]
    ]
    left = pairs.count - len(texts)
    return ", ".join(texts) + (f" and {left:,} more" if left else "")


def number_text(value: float) -> str:
    """`2,980,294`, `57.5`."""
    return f"{value:,.1f}".removesuffix(".0")


def bins(histogram: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int]]:
    """Each bin's name and count: `20 to 39`, `60 and more`."""
    edges = histogram["edges"]
    step = edges[1] - edges[0] if len(edges) > 1 else 0
    for edge, count in zip(edges, histogram["counts"], strict=True):
        last = edge == edges[-1]
        yield (f"{edge:,} and more" if last else f"{edge:,} to {edge + step - 1:,}"), count


def length_picture(found: Inspection) -> bytes:
    """Rows by their length in tokens, as a PNG; bins beyond `max_length` are hatched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    named = list(bins(found.histogram))
    over = [edge >= found.max_length for edge in found.histogram["edges"]]
    figure = Figure(figsize=(7, 3), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.bar(
        range(len(named)),
        [count for _, count in named],
        color=[VAL_COLOUR if beyond else TRAIN_COLOUR for beyond in over],
        hatch=["///" if beyond else "" for beyond in over],
    )
    axes.set_xticks(range(len(named)), [name for name, _ in named], fontsize=7, rotation=30)
    axes.set_xlabel("tokens of a row")
    axes.set_ylabel("rows")
    axes.spines[["right", "top"]].set_visible(False)
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _most(kinds: Mapping[str, int]) -> dict[str, int]:
    """The kinds that most entries have, and how many entries the others share."""
    first = dict(list(kinds.items())[:_SHOWN_KINDS])
    left = sum(kinds.values()) - sum(first.values())
    return first | ({f"{len(kinds) - len(first):,} more": left} if left else {})


def _groups(example: Example) -> tuple[Example, Iterable[tuple[str, list[str]]], str]:
    """An example, its tokens in runs of one kind, and its text where tokens split characters:
    their bytes are nothing to read."""
    groups = [
        (kind, [token.text for token in tokens])
        for kind, tokens in groupby(example.tokens, key=lambda token: token.kind)
    ]
    decode = get_tokenizer().decode
    ids = [token.id for token in example.tokens]
    is_split = any("\ufffd" in decode([token]) for token in ids)
    return example, groups, visible(decode(ids)) if is_split else ""
