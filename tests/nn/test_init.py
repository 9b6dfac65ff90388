import math

import pytest
import torch
from torch import nn

from qkv.common.errors import UsageError
from qkv.models import catalogue
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.feedforward import FeedForward
from qkv.nn.init import SCHEMES, initialise, without_weights

# One small model of each family; wide enough that a standard deviation can be told.
SMALL = {"vocab_size": 400, "dim": 64, "num_layers": 2, "num_heads": 4, "ff_dim": 128}
MODELS = {
    "bert": ("bert-tiny", {**SMALL, "heads": ["pool", "mlm", "nsp"]}),
    "gpt": ("gpt2", {**SMALL, "num_layers": 8}),
    "transformer": ("transformer-tiny", {**SMALL, "num_decoder_layers": 2}),
    "t5": ("t5-1.1-small", {**SMALL, "num_decoder_layers": 2, "head_dim": 8}),
    "vit": ("vit-ti16", {"dim": 64, "num_layers": 2, "num_heads": 4, "ff_dim": 128, "image_size": 32, "patch_size": 8}),
    "convnet": ("convnet-mini", {"dim": 64, "num_layers": 3}),
    "rnn": ("rnn-small", {"vocab_size": 400, "dim": 64}),
}


@pytest.fixture(scope="module", params=MODELS)
def scheme_and_model(request):
    name, changes = MODELS[request.param]
    torch.manual_seed(0)
    return request.param, catalogue.build(catalogue.preset(name, **changes))


@pytest.fixture(scope="module")
def built():
    def make(scheme):
        name, changes = MODELS[scheme]
        torch.manual_seed(0)
        return catalogue.build(catalogue.preset(name, **changes))

    return make


def of_kind(model, *kinds):
    return [module for module in model.modules() if isinstance(module, kinds)]


def test_every_scheme_has_a_model_here():
    assert set(SCHEMES) == set(MODELS)


def test_every_parameter_is_finite(scheme_and_model):
    _, model = scheme_and_model
    for name, parameter in model.named_parameters():
        assert bool(parameter.isfinite().all()), name


def test_biases_are_zero_and_norms_one(scheme_and_model):
    scheme, model = scheme_and_model
    if scheme == "rnn":  # Luong et al. draw everything
        return
    checked = 0
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not bool(parameter.any()), name
            checked += 1
    for norm in of_kind(model, nn.LayerNorm, nn.RMSNorm):
        assert bool((norm.weight == 1).all())
        checked += 1
    assert checked > 4


def test_the_same_seed_gives_the_same_weights(scheme_and_model, built):
    scheme, model = scheme_and_model
    again = built(scheme)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def near(tensor, std):
    assert tensor.std().item() == pytest.approx(std, rel=0.12)
    assert abs(tensor.mean().item()) < 4 * std / math.sqrt(tensor.numel()) + 1e-3


def test_vit_draws_each_matrix_with_xavier_and_patches_by_their_pixels(built):
    model = built("vit")
    near(model.embeddings.project.weight, (3 * 8 * 8) ** -0.5)
    near(model.embeddings.position.table.weight, 0.02)
    for block in model.stack.blocks:
        for part in block.attention.part.qkv.weight.chunk(3):
            near(part, (2 / (64 + 64)) ** 0.5)
        near(block.feedforward.part.up.weight, (2 / (64 + 128)) ** 0.5)


def test_convolutions_keep_the_size_of_what_passes_through(built):
    stem = catalogue.build(catalogue.preset("vit-ti16", image_size=32, patch_size=8, patches="conv")).embeddings.project
    convolutions = of_kind(stem, nn.Conv2d)
    for layer in convolutions[1:-1]:
        near(layer.weight, (2 / layer.weight[0].numel()) ** 0.5)
    near(convolutions[-1].weight, convolutions[-1].weight[0].numel() ** -0.5)
    for layer in of_kind(built("convnet").blocks[1], nn.Conv2d)[:2]:
        near(layer.weight, (2 / (9 * layer.weight.shape[0])) ** 0.5)


def test_bert_draws_every_matrix_with_0_02(built):
    for module in of_kind(built("bert"), nn.Linear, nn.Conv2d, nn.Embedding):
        if module.weight.numel() > 500:
            near(module.weight, 0.02)


def test_vit_draws_its_leading_token(built):
    leading = built("vit").embeddings.leading
    assert 0 < leading.std() < 0.05


def test_gpt_divides_the_way_out_by_the_root_of_twice_the_depth(built):
    model = built("gpt")
    for attention in of_kind(model, SelfAttention):
        near(attention.qkv.weight, 0.02)
        near(attention.out.weight, 0.02 / math.sqrt(2 * 8))
    for part in of_kind(model, FeedForward):
        near(part.up.weight, 0.02)
        near(part.down.weight, 0.02 / math.sqrt(2 * 8))
    near(model.embeddings.token.weight, 0.02)


def test_transformer_is_xavier_with_each_of_a_fused_product_by_itself(built):
    model = built("transformer")

    def xavier(weight):
        bound = math.sqrt(6 / sum(weight.shape))
        assert weight.abs().max() <= bound
        near(weight, bound / math.sqrt(3))

    for attention in of_kind(model, SelfAttention):
        for part in attention.qkv.weight.chunk(3):
            xavier(part)
        xavier(attention.out.weight)
    for attention in of_kind(model, CrossAttention):
        xavier(attention.q.weight)
        for part in attention.kv.weight.chunk(2):
            xavier(part)
    for part in of_kind(model, FeedForward):
        xavier(part.up.weight)
        xavier(part.down.weight)
    near(model.embeddings.token.weight, 64**-0.5)


def test_t5_needs_no_scale_in_attention(built):
    model = built("t5")
    near(model.embeddings.token.weight, 1.0)
    for attention in of_kind(model, SelfAttention):
        q, k, v = attention.qkv.weight.split(attention.sizes)
        near(q, (64 * 8) ** -0.5)
        near(k, 64**-0.5)
        near(v, 64**-0.5)
        near(attention.out.weight, (4 * 8) ** -0.5)
    for attention in of_kind(model, CrossAttention):
        near(attention.q.weight, (64 * 8) ** -0.5)
        near(attention.kv.weight, 64**-0.5)
    for part in of_kind(model, FeedForward):
        near(part.up.weight, 64**-0.5)
        near(part.down.weight, 128**-0.5)


def test_rnn_draws_uniformly_and_opens_the_forget_gates(built):
    model = built("rnn")
    for module in of_kind(model, nn.LSTM):
        size = module.hidden_size
        for name, parameter in module.named_parameters():
            if name.startswith("bias_ih"):
                assert bool((parameter[size : 2 * size] == 1).all())
                parameter = torch.cat([parameter[:size], parameter[2 * size :]])
            assert parameter.abs().max() <= 0.1
            assert parameter.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.25)
    near(model.token.weight, 0.1 / math.sqrt(3))


@pytest.mark.parametrize("position", ["relative", "bucketed", "learned"])
def test_positions_are_drawn_too(position):
    model = catalogue.build(catalogue.preset("bert-tiny", **SMALL, position=position))
    for name, parameter in model.named_parameters():
        if "position" in name:
            assert bool(parameter.isfinite().all())
            assert parameter.std() > 0.005


def test_an_unknown_scheme_is_named():
    with pytest.raises(UsageError, match=r"'brt'; did you mean 'bert'"):
        initialise(nn.Linear(1, 1), "brt")


def test_a_model_without_memory_is_left_alone():
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    initialise(model, "bert")
    assert model.weight.is_meta


@pytest.mark.parametrize("name", MODELS)
def test_a_model_without_weights_has_their_shapes_and_draws_nothing(name, built):
    preset, changes = MODELS[name]
    before = torch.get_rng_state()
    with without_weights():
        model = catalogue.build(catalogue.preset(preset, **changes))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.is_meta for parameter in model.parameters())
    wanted = {key: tensor.shape for key, tensor in built(name).state_dict().items()}
    assert {key: tensor.shape for key, tensor in model.state_dict().items()} == wanted
    assert nn.Linear(2, 2).weight.abs().sum() > 0  # afterwards, torch initialises again
