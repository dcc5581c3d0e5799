"""The plain way: GPT-2 and its training loop as chapter 7 describes them, nothing made fast.

The measure for everything that is. The model keeps query, key and value in three layers, masks
and normalises the scores step by step, and has an output layer of its own; batches are padded to
their longest entry; AdamW goes over the parameters one by one; all in float32.

Letters: B sequences, T the longest of them, C embedding, H heads, D one head, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

PAD_ID = 50256
IGNORE_INDEX = -100


class Attention(nn.Module):
    """Multi-head attention with an explicit mask (chapter 3)."""

    def __init__(self, width: int, num_heads: int, context_length: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, width // num_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        mask = torch.ones(context_length, context_length, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        shape = (b, t, self.num_heads, self.head_dim)
        query, key, value = (
            layer(x).view(shape).transpose(1, 2)  # (B, H, T, D)
            for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3)  # (B, H, T, T)
        scores.masked_fill_(self.mask[:t, :t], -torch.inf)
        weights = torch.softmax(scores / self.head_dim**0.5, dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(b, t, c))


class GELU(nn.Module):
    """Written out, as chapter 4 does."""

    def forward(self, x: Tensor) -> Tensor:
        inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + torch.tanh(inner))


class LayerNorm(nn.Module):
    """Written out, as chapter 4 does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class Block(nn.Module):
    """Attention, then feed-forward, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, num_heads: int, context_length: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)
        self.attention = Attention(width, num_heads, context_length)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


class PlainGPT2(nn.Module):
    """The whole model; `forward` gives the logits of every position.

    Args:
        tied: the output layer is the embedding itself, as in OpenAI's model. The chapter gives
            it weights of its own, which start equal and are trained apart.
    """

    def __init__(
        self,
        width: int,
        num_layers: int,
        num_heads: int,
        *,
        vocab_size: int = 50257,
        context_length: int = 1024,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.position_embedding = nn.Embedding(context_length, width)
        self.blocks = nn.Sequential(
            *(Block(width, num_heads, context_length) for _ in range(num_layers))
        )
        self.final_norm = LayerNorm(width)
        self.head = nn.Linear(width, vocab_size, bias=False)
        if tied:
            self.head.weight = self.token_embedding.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        """(B, T) token ids to (B, T, V) logits."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.token_embedding(input_ids) + self.position_embedding(positions)
        return self.head(self.final_norm(self.blocks(x)))

    @torch.no_grad()
    def load_published(self, tensors: dict[str, Tensor]) -> PlainGPT2:
        """Copies weights in from the published names and shapes (`wte.weight`, `h.0.attn…`)."""
        names = {
            "wte.weight": self.token_embedding.weight,
            "wpe.weight": self.position_embedding.weight,
            "ln_f.weight": self.final_norm.scale,
            "ln_f.bias": self.final_norm.shift,
        }
        for i, block in enumerate(self.blocks):
            attention, (widen, _, narrow) = block.attention, block.feed_forward
            for norm, ours in (("ln_1", block.norm_1), ("ln_2", block.norm_2)):
                names[f"h.{i}.{norm}.weight"], names[f"h.{i}.{norm}.bias"] = ours.scale, ours.shift
            for name, layer in (
                ("attn.c_proj", attention.out),
                ("mlp.c_fc", widen),
                ("mlp.c_proj", narrow),
            ):
                # Published matrices are (in, out), Linear's are (out, in).
                names[f"h.{i}.{name}.weight"] = layer.weight.T
                names[f"h.{i}.{name}.bias"] = layer.bias
            parts = (attention.query, attention.key, attention.value)
            for kind in ("weight", "bias"):
                thirds = tensors[f"h.{i}.attn.c_attn.{kind}"].chunk(3, dim=-1)
                for part, third in zip(parts, thirds, strict=True):
                    getattr(part, kind).copy_(third.T if kind == "weight" else third)
        for name, parameter in names.items():
            parameter.copy_(tensors[name])
        self.head.weight.copy_(tensors["wte.weight"])
        return self


def pad(rows: Sequence[Sequence[int]], device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Rows of token ids to inputs and targets, both (B, T), padded to the longest.

    Rows end with the end-of-text token, which is also what they are padded with; the padding
    behind a row's own end carries no loss.
    """
    longest = max(len(row) for row in rows)
    inputs, targets = [], []
    for row in rows:
        padded = [*row, *[PAD_ID] * (longest - len(row))]
        inputs.append(torch.tensor(padded[:-1]))
        target = torch.tensor(padded[1:])
        target[len(row) - 1 :] = IGNORE_INDEX
        targets.append(target)
    return torch.stack(inputs).to(device), torch.stack(targets).to(device)


def batch_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean loss of a batch, in nats per token that carries loss."""
    logits = model(inputs)
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE_INDEX
    )


def make_optimizer(model: nn.Module, learning_rate: float = 5e-5) -> torch.optim.Optimizer:
    """AdamW as the chapter makes it, but for the update that is done one parameter at a time."""
    return torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=0.1, foreach=False, fused=False
    )


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor
) -> float:
    """One optimizer step; the loss before it."""
    optimizer.zero_grad()
    loss = batch_loss(model, inputs, targets)
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def validation_loss(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], *, mean_of_batches: bool = True
) -> float:
    """The mean of the batches' losses, as the chapter takes it; or the mean over all tokens."""
    model.eval()
    total = weight = 0.0
    for inputs, targets in batches:
        count = 1 if mean_of_batches else int((targets != IGNORE_INDEX).sum())
        total += batch_loss(model, inputs, targets).item() * count
        weight += count
    model.train()
    return total / weight


@torch.no_grad()
def generate(model: nn.Module, prompt: Sequence[int], num_tokens: int) -> list[int]:
    """`num_tokens` likeliest next tokens, the whole text read again for each (chapter 5)."""
    ids = torch.tensor([list(prompt)])
    for _ in range(num_tokens):
        logits = model(ids)[:, -1]
        ids = torch.cat([ids, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return ids[0, len(prompt) :].tolist()
