"""Entries to tokens."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from tasks.progress import stage_progress
from twolevers.data.tokenise import tokenise as tokenise_dataset
from twolevers.options import DataOptions
from twolevers.records import DatasetFile, TokenisedData
from twolevers.settings import Home


@task(task_run_name="tokenise {dataset.name}", **stage("tokenise"))
def tokenise(
    dataset: DatasetFile, options: DataOptions, seed: int, whole: bool = False
) -> TokenisedData:
    """The three splits as token ids, or the whole as the test split; the ledger of every row."""
    with stage_progress() as progress:
        return tokenise_dataset(
            dataset, options, seed=seed, home=Home(), progress=progress, whole=whole
        )
