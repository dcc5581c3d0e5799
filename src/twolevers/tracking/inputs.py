"""What a run was made of, as its folder keeps it: a run that goes on, and one that repeats it,
need the folder and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa

from twolevers.classification.records import LabelledData
from twolevers.data.split import SPLITS
from twolevers.errors import InputError, Problem
from twolevers.files import read_json, write_json
from twolevers.records import DatasetFile, SplitName, TokenisedData, WeightsFolder

INPUTS_FILE = "inputs.json"
DATA_FOLDER = "data"
Data = TypeVar("Data", TokenisedData, LabelledData)


@dataclass(frozen=True)
class Inputs(Generic[Data]):
    """What a run was made of: the records of its inputs, the data as read in its own folder."""

    dataset: DatasetFile
    weights: WeightsFolder
    data: Data


def write_inputs(
    folder: Path, dataset: DatasetFile, weights: WeightsFolder, data: TokenisedData | LabelledData
) -> Path:
    """Keep the records; the data itself is in `folder/data` by now."""
    inputs = {"dataset": dataset, "weights": weights, "data": data}
    file = folder / INPUTS_FILE
    write_json(file, {name: record.model_dump(mode="json") for name, record in inputs.items()})
    return file


def read_inputs(
    folder: Path, kind: type[Data], load: Callable[[Data, SplitName], Sequence[object]]
) -> Inputs[Data] | None:
    """What `write_inputs` kept in a run's folder; None where it kept nothing yet.

    Args:
        load: reads a split's rows.

    Raises:
        InputError: it is no longer whole.
    """
    file = folder / INPUTS_FILE
    if not file.is_file():
        return None
    try:
        stored = read_json(file)
        data = kind.model_validate(stored["data"] | {"path": folder / DATA_FOLDER})
        sizes = [len(load(data, split)) for split in SPLITS]
        if sizes != [data.num_train, data.num_val, data.num_test]:
            raise ValueError(f"{data.path} holds other rows than the run had")
        dataset = DatasetFile.model_validate(stored["dataset"])
        return Inputs(dataset, WeightsFolder.model_validate(stored["weights"]), data)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        what = f"what it was made of is no longer whole in {folder} ({error})"
        raise InputError(Problem("run", folder.name, what, "start a new run")) from error
