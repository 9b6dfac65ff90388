import torch

from qkv.insight.answer_scores import log_odds


def test_log_odds_are_exact_where_probabilities_round():
    logits = torch.tensor([[2.0, 0.0, -1.0], [40.0, 0.0, -1.0], [-40.0, 0.0, -1.0]])
    chances = logits.double().softmax(-1)[:, 0]
    expected = (chances / (1 - logits.double().softmax(-1)[:, 0])).log()
    found = log_odds(logits, torch.tensor([0, 0, 0]))
    torch.testing.assert_close(found[0].double(), expected[0])
    rest = torch.tensor([0.0, -1.0]).logsumexp(0)
    torch.testing.assert_close(found[1], 40.0 - rest)
    torch.testing.assert_close(found[2], -40.0 - rest)
