"""One instruction to one model."""

from __future__ import annotations

from twolevers.data.prompt import find_style
from twolevers.data.read import Entry
from twolevers.data.tokenizer import get_tokenizer
from twolevers.device import find_device, find_precision
from twolevers.environment import prepare_environment
from twolevers.errors import InputError, Problem
from twolevers.generation.generate import generate
from twolevers.models.weights import load_model
from twolevers.options import FineTuneOptions, GenerationOptions
from twolevers.settings import load_settings
from twolevers.training.precision import autocast


def ask(
    instruction: str,
    text: str,
    *,
    run: str,
    base: bool,
    device: str,
    options: GenerationOptions,
    seed: int,
) -> str:
    """The answer of a run's model, tuned or base, in the prompt style that it was trained with.

    Raises:
        InputError: no such run, a run without a checkpoint, an empty instruction.
    """
    from twolevers.models.fetch import fetch_weights
    from twolevers.progress import Silent
    from twolevers.tracking.queries import find_run, read_options

    if not instruction.strip():
        raise InputError(Problem("instruction", instruction, "is empty", "say what to do"))
    home = prepare_environment()
    found = find_run(run, home, load_settings())
    trained = read_options(found, home) or FineTuneOptions()
    config = None
    if base:
        weights = fetch_weights(trained.model, trained.weights, home, Silent())
        path = weights.path
        from twolevers.models.catalog import find_model

        config = find_model(trained.model).config
    elif found.checkpoint is None or not found.checkpoint.exists():
        raise InputError(
            Problem("--run", run, "has no checkpoint", "choose another: `twolevers runs`")
        )
    else:
        path = found.checkpoint
    place = find_device(device)
    model = load_model(path, config, device=place.name).eval()
    style = find_style(trained.data.prompt_style)
    entry = Entry(instruction=instruction, input=text, output="", kind=None)
    prompt, _ = style.render(entry)
    tokenizer = get_tokenizer()
    with autocast(place, find_precision("auto", place)):
        [answer] = generate(model, [tokenizer.encode(prompt)], options, seed=seed)
    return tokenizer.decode(answer).strip()
