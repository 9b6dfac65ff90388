"""Likelihoods of continuations against the model's logits, and classification by likelihood against the formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from qkv.common.errors import UsageError
from qkv.predict import Model
from tests.predict.writers import writer

PROMPTS = ["The small cat", "Two dogs", "Two dogs", "The queen sees"]
AFTER = [" sleeps.", " play in the garden.", " eat", " a red house. It is big."]


@pytest.fixture(scope="module")
def gpt() -> Model:
    return writer()


def test_a_continuation_is_the_difference_of_two_texts(gpt: Model) -> None:
    """log p(continuation | prompt) = log p(whole) - log p(prompt), where the tokens of the prompt stay the same."""
    assert gpt.tokenizer is not None
    for found, prompt, after in zip(gpt.score(PROMPTS, AFTER), PROMPTS, AFTER, strict=True):
        read, whole = gpt.tokenizer.encode([prompt, prompt + after]).ids
        assert whole[: len(read)] == read
        totals = [float(gpt.log_probs([ids])[0].sum()) for ids in (whole, read)]
        assert found.log_prob == pytest.approx(totals[0] - totals[1], abs=1e-3)
        assert found.tokens == [gpt.tokenizer.token_of(number) for number in whole[len(read) :]]
        assert found.per_token == pytest.approx(sum(found.token_scores) / len(found.tokens))


def test_a_token_across_the_border_belongs_to_the_continuation(gpt: Model) -> None:
    assert gpt.tokenizer is not None
    whole = gpt.tokenizer.encode(["I see the"]).ids[0]
    assert gpt.tokenizer.token_of(whole[-1]) == "Ġthe"
    (found,) = gpt.score(["I see t"], ["he"])
    assert found.tokens == ["Ġthe"]
    assert found.log_prob == pytest.approx(gpt.log_probs([whole])[0].tolist()[-1], abs=1e-4)
    (empty,) = gpt.score([""], ["I see the"])
    begin = gpt.tokenizer.specials["end"]
    assert empty.token_scores == pytest.approx(gpt.log_probs([[begin, *whole]])[0].tolist(), abs=1e-4)


def test_a_t5_scores_a_target() -> None:
    t5 = writer("unigram", "t5-small")
    assert t5.tokenizer is not None
    (found,) = t5.score(["The small cat"], ["Two dogs"], prefix="")
    target = t5.tokenizer.encode(["Two dogs"]).ids[0]
    logits = t5.logits(t5.tokenizer.encode(["The small cat"]).ids, [[0, *target[:-1]]])[0]
    wanted = logits.log_softmax(-1)[range(len(target)), target].tolist()
    assert found.token_scores == pytest.approx(wanted, abs=1e-4)
    assert found.tokens[-1] == "</s>"


def test_order_and_company_do_not_matter(gpt: Model) -> None:
    together = gpt.score(PROMPTS, AFTER)
    for one, prompt, after in zip(together, PROMPTS, AFTER, strict=True):
        assert gpt.score([prompt], [after])[0].log_prob == pytest.approx(one.log_prob, abs=1e-4)


@pytest.mark.parametrize(
    ("prompts", "after", "message"),
    [
        (["a"], [], "1 prompts and 0 continuations"),
        (["a"], [""], "continuation 0 is empty"),
        (["a " * 60], ["b"], r"prompt 0 and its continuation have \d+ tokens, and this model reads 48"),
        ("a", "b", "score takes a list of texts"),
    ],
)
def test_wrong_pairs_are_refused(gpt: Model, prompts: Any, after: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gpt.score(prompts, after)


LABELS = ["good", "not so good"]


def formula(model: Model, text: str, prompt: str, *, mean: bool = False) -> torch.Tensor:
    found = model.score([prompt.format(text=text)] * 2, [f" {label}" for label in LABELS])
    return torch.tensor([one.per_token if mean else one.log_prob for one in found], dtype=torch.float64)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("calibrate", [False, True])
def test_zero_shot_is_the_formula(gpt: Model, normalize: bool, calibrate: bool) -> None:
    """Zhao et al. 2021: W = diag(p_empty)^-1, and q = softmax over the labels of W p in proportion."""
    prompt = "{text}\nIt is"
    texts = ["The cat sleeps.", "Two dogs play."]
    found = gpt.zero_shot(texts, LABELS, prompt, normalize=normalize, calibrate=calibrate)
    for text, labels in zip(texts, found, strict=True):
        chances = formula(gpt, text, prompt, mean=normalize).softmax(-1)
        if calibrate:
            chances = chances / formula(gpt, "", prompt, mean=normalize).softmax(-1)
            chances = chances / chances.sum()
        wanted = dict(zip(LABELS, chances.tolist(), strict=True))
        assert {label.label: label.score for label in labels} == pytest.approx(wanted, abs=1e-4)
        assert labels[0].score >= labels[1].score


def test_examples_and_a_label_inside_the_prompt() -> None:
    gpt = writer(max_length=120)
    shots = [("I eat.", "good"), ("We run.", "not so good")]
    (found,) = gpt.zero_shot(["The cat."], LABELS, "{text} ({label})", examples=shots)
    before = "I eat. (good)\n\nWe run. (not so good)\n\nThe cat. ("
    wanted = [one.log_prob for one in gpt.score([before] * 2, ["good)", "not so good)"])]
    chances = torch.tensor(wanted).softmax(-1).tolist()
    assert {one.label: one.score for one in found} == pytest.approx(dict(zip(LABELS, chances, strict=True)), abs=1e-4)
    assert math.isclose(sum(one.score for one in found), 1)


@pytest.mark.parametrize(
    ("labels", "prompt", "message"),
    [
        (["a"], "{text}", "at least two labels"),
        (["a", "a"], "{text}", "all different"),
        (["a", "b"], "no place", "has no place for the text"),
        (["a", "b"], "{label}: {text}", "before {text}"),
    ],
)
def test_wrong_templates_are_refused(gpt: Model, labels: list[str], prompt: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gpt.zero_shot(["x"], labels, prompt)
