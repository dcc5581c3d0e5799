"""What a finished run leaves in MLflow's registry: its checkpoints as logged models, the best one
as a version of `twolevers-<model>`.

The folder of a stored checkpoint is itself the model that MLflow serves: its description and the
code that answers lie beside the weights, so the weights are stored once, on disk and behind a
server alike. The alias `newest` is the last run's; `best` moves when the validation loss is lower
than that of its present version, measured on the same rows in the same way.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers import __version__
from twolevers.files import read_json
from twolevers.options import FineTuneOptions
from twolevers.tracking import artifacts, names

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Metric, Run

BEST, NEWEST = "best", "newest"
CODE = Path(__file__).with_name("pyfunc.py")
VAL_LOSS = "val/epoch_loss"
"""Over the whole validation split, measured at each checkpoint of an epoch."""
STEP_METRICS = (VAL_LOSS, "val/loss", "train/eval_loss")
MEASURED_ON = ("data", "split", "prompt_style", "loss_on", "max_length")
"""Parts of the workload that two validation losses must share to be compared."""
EXAMPLE = {"instruction": "Rewrite the sentence in the passive voice.", "input": "She wrote it."}


def registered_name(model: str) -> str:
    """`twolevers-gpt2-small` of `gpt2-small (124M)`."""
    return f"twolevers-{model.split(' ')[0]}"


def make_servable(folder: Path, options: FineTuneOptions) -> None:
    """Lay beside a checkpoint's weights what MLflow needs to serve them: `MLmodel` and code.

    Args:
        folder: of the checkpoint, among the artifacts or on its way there.
        options: the run's; the model answers as the run did unless told otherwise.
    """
    with warnings.catch_warnings():
        # It advises on its own classes' type hints.
        warnings.simplefilter("ignore")
        import mlflow.pyfunc
        from mlflow.models import Model, ModelSignature
        from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    logging.getLogger("mlflow").setLevel(logging.ERROR)  # the first import had set its own

    generation = options.generation
    asks = Schema(
        [
            ColSpec(DataType.string, "instruction"),
            ColSpec(DataType.string, "input", required=False),
        ]
    )
    params = ParamSchema(
        [
            ParamSpec("max_new_tokens", DataType.long, generation.max_new_tokens),
            ParamSpec("temperature", DataType.double, generation.temperature),
            ParamSpec("seed", DataType.long, options.training.seed),
        ]
    )
    # float16 is for GPUs alone, and the model may be served by a CPU.
    precision = "auto" if options.precision == "float16" else options.precision
    with (
        tempfile.TemporaryDirectory() as temporary,
        warnings.catch_warnings(),
        _installed_taken_for_granted(),
    ):
        warnings.simplefilter("ignore")
        made = Path(temporary) / "model"
        mlflow.pyfunc.save_model(
            made,
            python_model=str(CODE),
            signature=ModelSignature(asks, Schema([ColSpec(DataType.string)]), params),
            input_example=EXAMPLE,
            model_config={
                "device": "auto",
                "precision": precision,
                "prompt_style": options.data.prompt_style,
                "seed": options.training.seed,
                "generation": generation.model_dump(),
            },
            pip_requirements=[f"twolevers=={__version__}"],
        )
        for file in made.iterdir():
            shutil.move(file, folder / file.name)
    description = Model.load(folder)
    # The weights are where the description is.
    description.flavors["python_function"]["artifacts"] = {"checkpoint": {"path": ".", "uri": "."}}
    description.save(folder / "MLmodel")


@contextmanager
def _installed_taken_for_granted() -> Iterator[None]:
    """While inside, MLflow does not look through all installed packages for those that the model
    requires: that takes a second, and they are the ones that run this."""
    from mlflow.utils import environment

    name = "warn_dependency_requirement_mismatches"
    asks = getattr(environment, name, None)
    if asks is None:  # another version of MLflow has it elsewhere: it takes its second
        yield
        return
    setattr(environment, name, lambda requirements: None)
    try:
        yield
    finally:
        setattr(environment, name, asks)


def read_options(run_folder: Path) -> FineTuneOptions | None:
    """A run's options, None where it has none: then it is no fine-tuning of ours."""
    file = run_folder / names.OPTIONS_FILE
    return FineTuneOptions.model_validate(read_json(file)) if file.is_file() else None


def register(client: MlflowClient, run_id: str, records: list[dict[str, Any]]) -> str | None:
    """Note a run's stored checkpoints as logged models and the best one as a model version.

    Args:
        records: of the checkpoints that are stored, as `artifacts.recorded_checkpoints`.

    Returns:
        `twolevers-gpt2-nano version 3 (newest, best)`; None where no checkpoint has a loss.

    Raises:
        MlflowException: the store refuses, or is gone.
    """
    run = client.get_run(run_id)
    models = {record["name"]: _log_model(client, run, record) for record in records}
    measured = [record for record in records if VAL_LOSS in record["metrics"]]
    if not measured:
        return None
    best = min(measured, key=lambda record: float(record["metrics"][VAL_LOSS]))
    return _register_version(client, run, best, models[best["name"]])


def _log_model(client: MlflowClient, run: Run, record: Mapping[str, Any]) -> LoggedModel:
    """The logged model of a checkpoint; found again where the run finishes a second time."""
    from mlflow.entities import LoggedModelOutput

    run_id, experiment_id = run.info.run_id, run.info.experiment_id
    name = f"{run.data.params['model'].split(' ')[0]} {record['name']}"
    condition = f"source_run_id = '{run_id}' AND name = '{name}'"
    if found := client.search_logged_models([experiment_id], condition, max_results=1):
        return found[0]
    shown = ("model", "device", "precision", "dataset", "epochs", "batch_size", "learning_rate")
    model = client.create_logged_model(
        experiment_id,
        name,
        run_id,
        tags={"checkpoint": record["name"], "step": str(record["step"])},
        params={key: run.data.params[key] for key in shown if key in run.data.params},
        model_type="checkpoint",
    )
    _point_to(model, run, record["name"])
    if metrics := _metrics_of(client, run, record, model.model_id):
        client.log_batch(run_id, metrics=metrics)
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, int(record["step"]))])
    return client.finalize_logged_model(model.model_id, "READY")


def _point_to(model: LoggedModel, run: Run, name: str) -> None:
    """Let the logged model's own folder be a link to the checkpoint, where both are files."""
    own = artifacts.local_path(model.artifact_location)
    stored = artifacts.local_path(run.info.artifact_uri)
    if own and stored:
        own.parent.mkdir(parents=True, exist_ok=True)
        checkpoint = stored / artifacts.FOLDER / name
        # Relative, so that the home can be moved.
        own.symlink_to(os.path.relpath(checkpoint, own.parent), target_is_directory=True)


def _metrics_of(
    client: MlflowClient, run: Run, record: Mapping[str, Any], model_id: str
) -> list[Metric]:
    """What was measured at the checkpoint's step, and for the model that was scored its scores.

    Time and step stay those of the run's own entry, which so is the same entry.
    """
    from mlflow.entities import Metric

    step, run_id = int(record["step"]), run.info.run_id
    scored = record["path"] == run.data.tags.get(names.CHECKPOINT)
    scores = [key for key in run.data.metrics if scored and key.startswith("tuned/")]
    inputs = run.inputs.dataset_inputs if run.inputs else []
    data = inputs[0].dataset if inputs else None
    return [
        Metric(
            key,
            metric.value,
            metric.timestamp,
            metric.step,
            model_id=model_id,
            dataset_name=data.name if data else None,
            dataset_digest=data.digest if data else None,
            run_id=run_id,
        )
        for key in [*(key for key in STEP_METRICS if key in run.data.metrics), *scores]
        for metric in client.get_metric_history(run_id, key)
        if metric.step == step or key in scores
    ]


def _register_version(
    client: MlflowClient, run: Run, record: Mapping[str, Any], model: LoggedModel
) -> str:
    """A version that refers to the run's stored checkpoint, and the aliases that it gets."""
    from mlflow.exceptions import MlflowException

    run_id, name = run.info.run_id, registered_name(run.data.params["model"])
    tags = _version_tags(run, record)
    known = client.search_model_versions(f"name = '{name}' AND run_id = '{run_id}'")
    version = next((v for v in known if v.tags.get("checkpoint") == record["name"]), None)
    if version is None:
        try:
            client.create_registered_model(name, description=_model_text(name, run))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        version = client.create_model_version(
            name,
            f"{run.info.artifact_uri}/{artifacts.FOLDER}/{record['name']}",
            run_id,
            tags=tags,
            description=_version_text(run, record),
        )
        # As MLflow's own `log_model` links a logged model and its version.
        link = json.dumps([{"name": name, "version": str(version.version)}])
        client.set_logged_model_tags(model.model_id, {"mlflow.modelVersions": link})
    number = str(version.version)
    aliases = [NEWEST, BEST] if _is_best(client, name, number, tags) else [NEWEST]
    for alias in aliases:
        client.set_registered_model_alias(name, alias, number)
    return f"{name} version {number} ({', '.join(aliases)})"


def _is_best(client: MlflowClient, name: str, number: str, tags: Mapping[str, str]) -> bool:
    """Whether `best` belongs to the version: it is lower than the present one, or the first.

    Losses measured on other rows, or in another way, say nothing of each other: `best` stays.
    """
    if not tags["data"]:  # what the run reported has not arrived
        return False
    held = dict(client.get_registered_model(name).aliases).get(BEST)
    if held is None or str(held) == number:
        return True
    present = client.get_model_version(name, str(held)).tags
    same = all(present.get(key) == tags.get(key) for key in MEASURED_ON)
    return same and float(tags["val_loss"]) < float(present["val_loss"])


def _version_tags(run: Run, record: Mapping[str, Any]) -> dict[str, str]:
    workload = json.loads(run.data.tags.get(names.WORKLOAD, "{}"))
    return {
        "val_loss": f"{record['metrics'][VAL_LOSS]:.6f}",
        "checkpoint": record["name"],
        "step": str(record["step"]),
        "fingerprint": run.data.tags.get(names.FINGERPRINT, ""),
        "device": run.data.tags.get("twolevers.device", ""),
        "precision": run.data.params.get("precision", ""),
        **{key: str(workload.get(key, "")) for key in MEASURED_ON},
    }


def _model_text(name: str, run: Run) -> str:
    return (
        f"{run.data.params['model']}, fine-tuned by twolevers. `{BEST}` has the lowest validation "
        f"loss of those measured on the same rows, `{NEWEST}` is the last run's.\n\n"
        f"    mlflow models serve -m models:/{name}@{BEST} --env-manager local\n"
    )


def _version_text(run: Run, record: Mapping[str, Any]) -> str:
    return (
        f"validation loss {record['metrics'][VAL_LOSS]:.3f} after {record['name']} of "
        f"{run.info.run_name}, on {run.data.params.get('dataset', 'its data')}"
    )
