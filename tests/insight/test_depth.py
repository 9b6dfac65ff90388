import pytest
import torch

import qkv
from qkv.common.batch import Tokens
from qkv.common.errors import UsageError
from qkv.common.ragged import Ragged
from qkv.insight.depth import AlikenessMeter, layer_states
from qkv.models import catalogue
from tests.contracts.entries import batch_for, make, shrink

NAMES = ["bert-base", "gpt2", "albert-base", "t5-small", "transformer-base", "vit-b16"]


@pytest.mark.parametrize("name", NAMES)
def test_the_last_layer_is_the_models_own_bit_for_bit(name):
    config = shrink(catalogue.preset(name))
    model, batch = make(config).eval(), batch_for(config)
    source = getattr(batch, "source", batch)
    states, layout = layer_states(model, source)
    stack = getattr(model, "stack", None) or model.encoder
    assert len(states) == config.num_layers + 1
    with torch.no_grad():
        assert torch.equal(stack.norm(states[-1]), model.encoder_states(source).states)
    assert layout.num_rows == len(states[0])


def test_cosine_and_residual_by_their_definitions():
    torch.manual_seed(1)
    x, layout = torch.randn(7, 5), Ragged.of([4, 1, 2])
    meter = AlikenessMeter()
    meter.add([x, x + 3], layout)
    found = meter.result()
    for number, states in enumerate((x, x + 3)):
        cosines, residuals = [], []
        for part in (states[:4], states[5:]):
            unit = part / part.norm(dim=-1, keepdim=True)
            pairs = [float(unit[i] @ unit[j]) for i in range(len(part)) for j in range(len(part)) if i != j]
            cosines.append(sum(pairs) / len(pairs))
            residuals.append(float((part - part.mean(0)).norm() / part.norm()))
        assert found.cosine[number] == pytest.approx(sum(cosines) / 2, abs=1e-6)
        assert found.residual[number] == pytest.approx(sum(residuals) / 2, abs=1e-6)
    with pytest.raises(UsageError, match="two tokens"):
        AlikenessMeter().result()


def test_pure_attention_makes_all_tokens_alike_and_skips_prevent_it():
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "dim": 32, "num_layers": 6, "num_heads": 4, "ff_dim": 64}
    model = qkv.build("bert-tiny", **sizes, device="cpu").module
    batch = Tokens.of([list(range(2, 22))])

    def last(**variant):
        meter = AlikenessMeter()
        meter.add(*layer_states(model, batch, **variant))
        return meter.result()

    whole, bare = last(), last(skip=False, feedforward=False)
    assert bare.residual[0] == whole.residual[0]
    assert bare.residual[-1] < 0.05 < 0.5 < whole.residual[-1]
    assert bare.cosine[-1] > 0.99 > whole.cosine[-1]
    without = last(feedforward=False)
    assert without.residual[-1] > 0.3  # skip connections alone are enough


def test_a_recurrent_network_has_no_such_layers():
    model = qkv.build("rnn-small", vocab_size=50, dim=16, device="cpu").module
    with pytest.raises(UsageError, match="no layers of attention"):
        layer_states(model, Tokens.of([[2, 3]]))
