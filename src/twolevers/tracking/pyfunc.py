"""What MLflow runs to answer from a checkpoint: a model from code, so that nothing is pickled.

The registry lays a copy of this file beside the weights; MLflow executes it when it loads the
model. twolevers has to be installed there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext
from pydantic import ValidationError

from twolevers.data.prompt import Entry
from twolevers.device import find_device, find_precision
from twolevers.errors import TwoleversError
from twolevers.generation.answerer import Answerer
from twolevers.options import GenerationOptions


class InstructionModel(PythonModel):
    """Answers `instruction` and `input` as the run that trained the model did.

    `model_config` holds what the run was told; whoever loads the model may say otherwise:
    `mlflow.pyfunc.load_model(uri, model_config={"device": "cuda"})`.
    """

    def load_context(self, context: PythonModelContext) -> None:
        """Loads the weights onto the device."""
        told = context.model_config
        device = find_device(told["device"])
        self.answerer = Answerer(
            Path(context.artifacts["checkpoint"]),
            prompt_style=told["prompt_style"],
            device=device,
            precision=find_precision(told["precision"], device),
        )

    def predict(
        self,
        context: PythonModelContext,
        model_input: pd.DataFrame,
        params: dict[str, Any] | None = None,
    ) -> list[str]:
        """One answer a row.

        Raises:
            MlflowException: an empty instruction, a prompt that is too long, a parameter out of
                bounds; a client's fault, which a server answers with status 400.
        """
        asked = {name: value for name, value in (params or {}).items() if value is not None}
        seed = asked.pop("seed", context.model_config["seed"])
        rows = model_input.astype(object).fillna("").to_dict("records")
        entries = [Entry(row["instruction"], row.get("input", ""), output="") for row in rows]
        try:
            options = GenerationOptions.model_validate(
                {**context.model_config["generation"], **asked}
            )
            return self.answerer.answer(entries, options, seed=int(seed))
        except (TwoleversError, ValidationError) as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error


set_model(InstructionModel())
