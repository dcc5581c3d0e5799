"""Entries that nearly repeat each other: MinHash over shingles of three tokens.

Two entries are near where at least 0.7 of the shingles that either has are in both (Jaccard).
Candidates come from locality-sensitive hashing (Broder 1997; Leskovec et al., Mining of Massive
Datasets, chapter 3): 64 minima in 16 bands of 4, so that a pair at 0.7 is seen with probability
0.99. Each entry is held against few of those that share a band with it and then, exactly,
against the likest: what is counted is near, but not every near pair is listed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHINGLE = 3
"""Tokens; a shorter entry is one shingle. With three, one word of twenty changed is near."""
THRESHOLD = 0.7
NUM_HASHES, NUM_BANDS = 64, 16

_MIX = np.uint64(0x9E3779B97F4A7C15)
_random = np.random.Generator(np.random.PCG64(0))
_FACTORS = _random.integers(1, 2**64, NUM_HASHES, dtype=np.uint64) | np.uint64(1)
_TERMS = _random.integers(0, 2**64, NUM_HASHES, dtype=np.uint64)


@dataclass(frozen=True)
class NearPairs:
    """Pairs of row indices and how alike they are: (P, 2) int64 and (P,) Jaccard."""

    rows: np.ndarray
    similarity: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def shingles(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A hash of each shingle, (S,) uint64, and how many of them each row has, (N,).

    Args:
        ids: the rows' tokens end to end.
        lengths: tokens of each row.
    """
    padding = SHINGLE - 1
    ends = np.cumsum(lengths + padding)
    total = int(ends[-1]) if len(ends) else 0
    flat = np.zeros(total + padding, np.uint64)
    flat[np.arange(len(ids)) + padding * np.repeat(np.arange(len(lengths)), lengths)] = ids.astype(
        np.uint64
    ) + np.uint64(1)
    hashes = np.zeros(total, np.uint64)
    for offset in range(SHINGLE):
        hashes = hashes * _MIX + flat[offset : offset + total]
    hashes ^= hashes >> np.uint64(31)
    hashes *= _MIX
    hashes ^= hashes >> np.uint64(29)
    counts = np.maximum(lengths - padding, 1)
    places = np.arange(total) - np.repeat(ends - lengths - padding, lengths + padding)
    return hashes[places < np.repeat(counts, lengths + padding)], counts


def signatures(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The minima of each row's shingles under each hash function: (N, NUM_HASHES) uint32."""
    hashes, counts = shingles(ids, lengths)
    starts = np.cumsum(counts) - counts
    minima = np.empty((len(lengths), NUM_HASHES), np.uint32)
    for number, (factor, term) in enumerate(zip(_FACTORS, _TERMS, strict=True)):
        values = ((hashes * factor + term) >> np.uint64(32)).astype(np.uint32)
        minima[:, number] = np.minimum.reduceat(values, starts)
    return minima


def candidates(minima: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Pairs that share a band, each row with the first and with the next in `order`: (P, 2).

    In each pair the row that comes first in `order` stands first.
    """
    minima = minima[order]
    found = []
    for band in np.split(minima, NUM_BANDS, axis=1):
        keys = np.zeros(len(minima), np.uint64)
        for column in band.T:
            keys = (keys ^ column) * _MIX
            keys ^= keys >> np.uint64(32)
        by_key = np.argsort(keys, kind="stable")
        begins = np.append(True, np.diff(keys[by_key]) != 0)
        first = np.maximum.accumulate(np.where(begins, np.arange(len(keys)), 0))
        later = np.flatnonzero(~begins)
        for earlier in (first[later], later - 1):
            found.append(by_key[earlier] * len(keys) + by_key[later])
    pairs = np.unique(np.concatenate(found))
    return order[np.stack(np.divmod(pairs, max(len(minima), 1)), axis=1)]


def near_pairs(pairs: np.ndarray, minima: np.ndarray, rows: list[np.ndarray]) -> NearPairs:
    """For the second row of the pairs the likest first one, where the two are near.

    Args:
        pairs: from `candidates`, or some of them.
        rows: each row's tokens.
    """
    alike = np.array([], np.float64)
    if len(pairs):
        alike = (minima[pairs[:, 0]] == minima[pairs[:, 1]]).mean(axis=1)
    likely = alike >= THRESHOLD - 0.2
    pairs, alike = pairs[likely], alike[likely]
    likest = np.lexsort((pairs[:, 0], -alike, pairs[:, 1]))
    _, first = np.unique(pairs[likest, 1], return_index=True)
    chosen = pairs[likest[first]]
    exact = np.array([jaccard(rows[one], rows[other]) for one, other in chosen.tolist()])
    near = exact >= THRESHOLD
    return NearPairs(chosen[near], exact[near])


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Shingles in both, of the shingles in either."""
    sets = [_set_of(ids.tolist()) for ids in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def _set_of(ids: list[int]) -> set[tuple[int, ...]]:
    if len(ids) < SHINGLE:
        return {tuple(ids)}
    return set(zip(*(ids[offset:] for offset in range(SHINGLE)), strict=False))
