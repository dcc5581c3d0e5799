"""A model as EleutherAI's lm-evaluation-harness asks it, by our own likelihood and generation.

The harness (Gao et al. 2021) brings tasks, prompts and metrics; what it asks of a model are three
functions. An extra: `pip install 'twolevers[lm-eval]'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.tasks import TaskManager
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from twolevers.computing import computing
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.device import Device
from twolevers.errors import InputError, Problem, TwoleversError, did_you_mean, first_line
from twolevers.evaluation.likelihood import likelihoods
from twolevers.generation.generate import generate
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions
from twolevers.training.precision import autocast

MAX_NEW_TOKENS = 256
"""Where a task does not say how long an answer may be; the harness's own default."""


class HarnessModel(TemplateLM):
    """`model` on its device, in an explicit precision."""

    def __init__(self, model: GPT2, device: Device, precision: str, *, seed: int = 0) -> None:
        super().__init__()
        self.model, self.precision, self.seed = model.eval(), precision, seed
        self.on = device
        self.tokenizer = get_tokenizer()

    @property
    def eot_token_id(self) -> int:
        return END_OF_TEXT

    @property
    def max_length(self) -> int:
        return self.model.config.context_length

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        return self.tokenizer.encode(string)

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str] | None, list[int], list[int]]],
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        pairs = [(context, continuation) for _, context, continuation in requests]
        with computing(), autocast(self.on, self.precision):
            found = likelihoods(self.model, pairs)
        answers = [(one.logprob, one.greedy) for one in found]
        for (key, _, _), answer in zip(requests, answers, strict=True):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answer)
        return answers

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """The whole of each text, every token with as much before it as the model sees."""
        totals = []
        for request in requests:
            (text,) = request.args
            windows = get_rolling_token_windows(
                token_list=self.tok_encode(text),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            pairs = [(None, *make_disjoint_window(window)) for window in windows]
            totals.append(sum(logprob for logprob, _ in self._loglikelihood_tokens(pairs)))
        return totals

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answers, each cut before the first of its task's stop strings."""
        answers: dict[int, str] = {}
        alike: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            alike.setdefault(repr(sorted(request.args[1].items())), []).append(index)
        for indices in alike.values():
            asked = dict(requests[indices[0]].args[1])
            options = _generation(asked, self.max_length)
            room = self.max_length - options.max_new_tokens
            prompts = [
                self.tok_encode(requests[i].args[0])[-room:] or [END_OF_TEXT] for i in indices
            ]
            with computing(), autocast(self.on, self.precision):
                made = generate(self.model, prompts, options, seed=self.seed)
            for index, token_ids in zip(indices, made, strict=True):
                text = _before(self.tokenizer.decode(token_ids), _stops(asked))
                answers[index] = text
                self.cache_hook.add_partial("generate_until", requests[index].args, text)
        return [answers[index] for index in range(len(requests))]


def _generation(asked: dict[str, Any], context_length: int) -> GenerationOptions:
    """The harness's arguments, named as Hugging Face's, as our options."""
    longest = asked.get("max_gen_toks") or asked.get("max_new_tokens") or MAX_NEW_TOKENS
    temperature = float(asked.get("temperature") or 0.0) if asked.get("do_sample") else 0.0
    return GenerationOptions(
        max_new_tokens=min(int(longest), context_length - 1),
        temperature=temperature,
        top_k=asked.get("top_k") or None,
        top_p=asked.get("top_p") or None,
    )


def _stops(asked: dict[str, Any]) -> list[str]:
    until = asked.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def _before(text: str, stops: Sequence[str]) -> str:
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends, default=len(text))]


def evaluate_tasks(
    model: HarnessModel,
    tasks: Sequence[str],
    *,
    folder: Path | None = None,
    num_fewshot: int | None = None,
    limit: int | None = None,
) -> dict[str, dict[str, float]]:
    """Each task's metrics by name, `acc` and `acc_stderr` and so on; groups are tasks too.

    Args:
        tasks: names that the harness knows, or that files in `folder` define.
        folder: of task files (YAML), beside the harness's own.
        limit: entries of each task, the first ones; all of them by default.

    Raises:
        InputError: no such task.
        TwoleversError: its data cannot be had, or the task cannot be run.
    """
    manager = _manager(tasks, folder)
    try:
        results = simple_evaluate(
            model,
            tasks=list(tasks),
            task_manager=manager,
            num_fewshot=num_fewshot,
            limit=limit,
            log_samples=False,
            bootstrap_iters=1000,
        )
    except Exception as error:  # the harness and its data sets raise what they like
        raise TwoleversError(
            f"lm-eval: {', '.join(tasks)} cannot be run: {first_line(error)}. A task's data are "
            "fetched from the hub unless its file names local ones"
        ) from error
    return {task: dict(_numbers(found)) for task, found in (results or {})["results"].items()}


def _manager(tasks: Sequence[str], folder: Path | None) -> TaskManager:
    """What knows the tasks: the folder's own where it has all of them, for the harness's 14,000
    take seconds to list."""
    if folder is not None:
        if not folder.is_dir():
            raise InputError(
                Problem("--task-folder", str(folder), "is no folder", "name one with task files")
            )
        own = TaskManager(include_path=str(folder), include_defaults=False)
        if set(tasks) <= set(own.all_tasks):
            return own
    manager = TaskManager(include_path=str(folder) if folder else None)
    if unknown := [task for task in tasks if task not in manager.all_tasks]:
        raise InputError(
            [
                Problem(
                    "--tasks",
                    task,
                    f"no such task{did_you_mean(task, manager.all_tasks)}",
                    "`lm-eval ls tasks` lists those there are; --task-folder adds your own",
                )
                for task in unknown
            ]
        )
    return manager


def _numbers(found: Mapping[str, Any]) -> list[tuple[str, float]]:
    """`acc,none` is the metric `acc` after the filter `none`, its error `acc_stderr,none`."""
    return [
        (name.removesuffix(",none").replace(",", "/"), float(value))
        for name, value in found.items()
        if isinstance(value, (int, float)) and name != "sample_len"
    ]
