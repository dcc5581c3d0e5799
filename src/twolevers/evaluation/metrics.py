"""Metrics that compare answers with references, all fractions from 0 to 1, 1 the best.

Adding a metric is writing one function of references and answers and naming it in `METRICS`;
it then stands in the scores of every run, as a whole and per kind of task.

Libraries are imported where they are used, so that a command that scores nothing starts sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from twolevers.evaluation.text import squad_words, words

Metric = Callable[[Sequence[str], Sequence[str]], float]
"""`metric(references, answers)`, equally many, at least one, to a fraction from 0 to 1."""


def exact_match(references: Sequence[str], answers: Sequence[str]) -> float:
    """Share of answers equal to their reference, white space at both ends aside.

    Why: the one metric that cannot flatter; for tasks with one right wording (a conversion, a
    label, a rewritten sentence) it is the share solved.
    Leaves out: everything that is right in other words. Case and punctuation count: `Paris.`
    is not `Paris`.
    """
    return _mean(float(r.strip() == a.strip()) for r, a in zip(references, answers, strict=True))


def normalised_match(references: Sequence[str], answers: Sequence[str]) -> float:
    """Share of answers equal to their reference as SQuAD compares (Rajpurkar et al. 2016): lower
    case, without punctuation and articles, white space as one blank.

    Why: `paris.` is `Paris`; what is missing to 1 is then not a matter of dress.
    Leaves out: as `exact_match` all that is right in other words, and what case and punctuation
    were asked for: a question mark left out, a title in small letters.
    """
    return _mean(
        float(squad_words(r) == squad_words(a)) for r, a in zip(references, answers, strict=True)
    )


def token_f1(references: Sequence[str], answers: Sequence[str]) -> float:
    """Mean F1 of the words that answer and reference share, as SQuAD computes it (Rajpurkar et
    al. 2016): lower case, without punctuation and articles, each word as often as it stands.

    Why: gives part of the mark for part of the content, and is not misled by an added `The`.
    Leaves out: the order of words, and their meaning: `not guilty` and `guilty` share 0.67.
    Both empty counts 1, one empty 0.
    """
    return _mean(_f1(r, a) for r, a in zip(references, answers, strict=True))


def rouge_l(references: Sequence[str], answers: Sequence[str]) -> float:
    """Mean F-measure of the longest common subsequence of words (ROUGE-L, Lin 2004), found by
    `rapidfuzz`; as the library `rouge-score` without stemming, with words of every script
    (`text.words`). (That library itself brings nltk, whose import takes a second of every run.)

    Why: credits words in the right order with others between them; usual for summaries and for
    longer answers.
    Leaves out: meaning and synonyms, and all punctuation: a question and the statement of the
    same words are equal. Long answers win recall, though they pay for it in precision.
    """
    from rapidfuzz.distance import LCSseq

    def f_measure(wanted: list[str], given: list[str]) -> float:
        # 2PR / (P + R), where P is common / given and R is common / wanted.
        return 2 * LCSseq.similarity(wanted, given) / max(len(wanted) + len(given), 1)

    return _mean(f_measure(words(r), words(a)) for r, a in zip(references, answers, strict=True))


def chrf(references: Sequence[str], answers: Sequence[str]) -> float:
    """chrF2 over all answers together (Popović 2015), by the library `sacrebleu`, over 100.

    Why: compares sequences of one to six characters, so that an inflected or misspelt word still
    counts in part, in every script and with no idea of what a word is.
    Leaves out: meaning, white space, and single answers: counts are summed over all answers
    first, so that long ones weigh more, and recall weighs twice precision.
    """
    from sacrebleu.metrics import CHRF

    return float(CHRF().corpus_score(list(answers), [list(references)]).score) / 100


METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "normalised_match": normalised_match,
    "token_f1": token_f1,
    "rouge_l": rouge_l,
    "chrf": chrf,
}


def length_ratio(references: Sequence[str], answers: Sequence[str]) -> float:
    """Words of all answers over words of all references; 1: as long, 2: twice as long. No score.

    Why: a model that does not stop, or that says next to nothing, shows here first.
    Leaves out: everything but the length. One endless answer weighs as much as many short ones,
    and some too long and some too short make 1.
    """
    return sum(len(a.split()) for a in answers) / max(sum(len(r.split()) for r in references), 1)


def repetition_rate(references: Sequence[str], answers: Sequence[str]) -> float:
    """Mean share of an answer's sequences of four words that stood in it before, 0 to 1, 0 the
    best (seq-rep-4, Welleck et al. 2020, of words). No score: the references are not looked at.

    Why: a model that runs in circles shows it here, whatever the reference.
    Leaves out: repetitions shorter than four words and those that the task asks for; an answer of
    fewer than four words counts 0.
    """
    return _mean(_repeated(answer.lower().split()) for answer in answers)


MEASURES: dict[str, Metric] = {"length_ratio": length_ratio, "repetition_rate": repetition_rate}
"""What is told of answers besides their scores."""


def answer_scores(references: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """Every metric of `METRICS` on these answers, then the `MEASURES`.

    Raises:
        ValueError: unequally many references and answers, or none.
    """
    if len(references) != len(answers) or not references:
        raise ValueError(f"{len(references)} references, {len(answers)} answers: nothing to score")
    return {name: metric(references, answers) for name, metric in (METRICS | MEASURES).items()}


def _f1(reference: str, answer: str) -> float:
    wanted, given = squad_words(reference), squad_words(answer)
    if not wanted or not given:
        return float(wanted == given)
    shared = (Counter(wanted) & Counter(given)).total()
    return 2 * shared / (len(wanted) + len(given))


def _repeated(given: Sequence[str]) -> float:
    sequences = [tuple(given[i : i + 4]) for i in range(len(given) - 3)]
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
