"""The model lever: every model is one entry of this table.

Sizes are those of the published checkpoints (Radford et al. 2019); revisions pin what the
hub serves, so that the same name always means the same weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from twolevers.errors import InputError, Problem, did_you_mean

VOCAB_SIZE = 50_257
CONTEXT_LENGTH = 1_024


@dataclass(frozen=True)
class GPT2Config:
    """Sizes of one GPT-2. All counts; `dropout` is a probability."""

    emb_dim: int
    num_layers: int
    num_heads: int
    vocab_size: int = VOCAB_SIZE
    context_length: int = CONTEXT_LENGTH
    dropout: float = 0.0

    @property
    def head_dim(self) -> int:
        return self.emb_dim // self.num_heads

    @property
    def num_parameters(self) -> int:
        """Parameters with the output tied to the embedding."""
        c = self.emb_dim
        block = 12 * c * c + 13 * c
        return (self.vocab_size + self.context_length) * c + self.num_layers * block + 2 * c

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class ModelEntry:
    """One value of the model lever.

    `repo`, `revision` and `sha256` say where the weights lie on a hub; an entry without a
    `repo` ships with the package. `learning_rate` is what the default recipe uses for it.
    """

    name: str
    config: GPT2Config
    description: str
    repo: str | None = None
    revision: str | None = None
    sha256: str | None = None
    learning_rate: float = 5e-5

    @property
    def short_name(self) -> str:
        """`gpt2-small` of `gpt2-small (124M)`."""
        return self.name.split(" ")[0]

    @property
    def size(self) -> str:
        """Parameters for people: `124M`."""
        return f"{round(self.config.num_parameters / 1e6)}M"


def _entry(
    short_name: str, config: GPT2Config, description: str, **source: str | float
) -> ModelEntry:
    size = f"{round(config.num_parameters / 1e6)}M"
    return ModelEntry(f"{short_name} ({size})", config, description, **source)  # type: ignore[arg-type]


MODELS: dict[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        _entry(
            "gpt2-nano",
            GPT2Config(emb_dim=128, num_layers=4, num_heads=4),
            "ships with the package, fine-tunes in seconds",
            learning_rate=1e-3,
        ),
        _entry(
            "gpt2-small",
            GPT2Config(emb_dim=768, num_layers=12, num_heads=12),
            "OpenAI's GPT-2, the chapter's quick choice",
            repo="openai-community/gpt2",
            revision="607a30d783dfa663caf39e06633721c8d4cfcd7e",
            sha256="248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
        ),
        _entry(
            "gpt2-medium",
            GPT2Config(emb_dim=1024, num_layers=24, num_heads=16),
            "OpenAI's GPT-2, the chapter's main choice",
            repo="openai-community/gpt2-medium",
            revision="6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
        ),
        _entry(
            "gpt2-large",
            GPT2Config(emb_dim=1280, num_layers=36, num_heads=20),
            "OpenAI's GPT-2",
            repo="openai-community/gpt2-large",
            revision="32b71b12589c2f8d625668d2335a01cac3249519",
        ),
        _entry(
            "gpt2-xl",
            GPT2Config(emb_dim=1600, num_layers=48, num_heads=25),
            "OpenAI's GPT-2, the largest",
            repo="openai-community/gpt2-xl",
            revision="15ea56dee5df4983c59b2538573817e1667135e2",
            sha256="0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a",
        ),
    )
}


def find_model(name: str) -> ModelEntry:
    """The entry that `name` means: full name, short form (`gpt2-medium`) or size (`355M`).

    Raises:
        InputError: no such model; names those there are.
    """
    wanted = name.strip().lower()
    for entry in MODELS.values():
        if wanted in (entry.name.lower(), entry.short_name, entry.size.lower()):
            return entry
    raise InputError(
        Problem(
            "model",
            name,
            f"no such model{did_you_mean(wanted, [e.short_name for e in MODELS.values()])}",
            "choose one of " + ", ".join(f'"{known}"' for known in MODELS),
        )
    )
