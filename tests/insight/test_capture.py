import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.insight.capture import capture, one_head, weights_of
from qkv.models import catalogue
from qkv.models.position import POSITIONS
from qkv.nn import kernels
from qkv.nn.attention import CrossAttention, SelfAttention
from qkv.nn.cache import KeyValueCache
from qkv.nn.recurrent import SegmentAttention
from qkv.nn.tap import Tap, recorders, recording
from tests.contracts.entries import LENGTHS, MODELS, batch_for, make, shrink

NAMES = ["rnn-base", "transformer-base", "t5-small", "gpt2", "bert-base", "vit-b16"]
ATTENTIONS = (SelfAttention, CrossAttention, SegmentAttention)
# Every entry of the catalogue but those without attention.
EVERY = [name for name in MODELS if not name.startswith(("convnet", "word2vec"))]


def model_of(name, **changes):
    config = shrink(catalogue.preset(name), **changes)
    return config, make(config).eval()


def count_hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("name", EVERY)
def test_capturing_changes_nothing_and_finds_every_attention(name, kernel):
    model = make(MODELS[name])
    kernels.use(model, kernel)
    batch = batch_for(MODELS[name])
    plain = model(batch).states
    with capture(model) as found:
        watched = model(batch).states
    assert torch.equal(plain, watched)
    taps = {path for path, module in model.named_modules() if isinstance(module, ATTENTIONS)}
    assert {name.split("@")[0] for name in found.weights()} == taps
    for weights in found.weights().values():
        for one in weights:
            assert not one.requires_grad
            torch.testing.assert_close(one.sum(-1), torch.ones(one.shape[:-1]))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rnn-base"])
def test_weights_reproduce_the_output_of_each_attention(name):
    config, model = model_of(name)
    said = {}
    for path, module in model.named_modules():
        if isinstance(getattr(module, "tap", None), Tap):
            module.register_forward_hook(lambda _module, _args, out, path=path: said.update({path: out}))
    with capture(model) as found:
        model(batch_for(config))
    for (path, _), (call,) in found.calls.items():
        attention = model.get_submodule(path)
        rows = []
        for weights, v_SKH in zip(found.weights()[path], call.keys.split(call.v), strict=True):
            v_NSH = v_SKH.transpose(0, 1).repeat_interleave(weights.shape[0] // v_SKH.shape[1], 0)
            rows.append((weights @ v_NSH).transpose(0, 1).flatten(1))
        torch.testing.assert_close(attention.out(torch.cat(rows)), said[path], atol=1e-5, rtol=1e-4)


def test_shapes_of_encoder_decoder_and_cross_attention():
    config, model = model_of("transformer-base")
    with capture(model) as found:
        model(batch_for(config))
    weights, heads = found.weights(), config.num_heads
    source, target = LENGTHS, LENGTHS[::-1]
    shapes = {name: [tuple(one.shape) for one in weights[f"{name}.part"]] for name in (
        "encoder.blocks.0.attention", "decoder.blocks.1.attention", "decoder.blocks.1.cross"
    )}  # fmt: skip
    assert shapes["encoder.blocks.0.attention"] == [(heads, s, s) for s in source]
    assert shapes["decoder.blocks.1.attention"] == [(heads, t, t) for t in target]
    assert shapes["decoder.blocks.1.cross"] == [(heads, t, s) for s, t in zip(source, target, strict=True)]
    causal = weights["decoder.blocks.0.attention.part"][0]
    assert torch.equal(causal, causal.tril())


def test_layers_that_share_weights_are_told_apart():
    config, model = model_of("albert-base")
    with capture(model) as found:
        model(batch_for(config))
    weights = found.weights()
    assert list(weights) == [f"stack.blocks.0.attention.part@{layer}" for layer in range(config.num_layers)]
    first, second = list(weights.values())[:2]
    assert not torch.equal(first[0], second[0])


def test_positions_that_ask_group_by_group_give_one_matrix():
    _, model = model_of("gpt2", position={"name": "rotary-dynamic", "scale": 2.0}, max_length=4)
    tokens = Tokens.of([[1, 2, 3, 4, 5, 6, 7], [8, 9], [3, 1, 4, 1, 5]])
    with capture(model) as found:
        model(tokens)
    assert max(map(len, found.calls.values())) > 1
    for weights in found.weights().values():
        assert [tuple(one.shape[1:]) for one in weights] == [(7, 7), (2, 2), (5, 5)]
        for one in weights:
            assert torch.equal(one, one.tril())
            torch.testing.assert_close(one.sum(-1), torch.ones(one.shape[:-1]))


def test_a_cached_step_is_kept_as_it_was():
    _, model = model_of("gpt2")
    cache = KeyValueCache(1, capacity=8)
    with torch.no_grad():
        model(Tokens.of([[1, 2, 3]]), cache=cache)
        with capture(model) as found:
            model(Tokens.of([[4]]), cache=cache)
        before = found.weights()
        model(Tokens.of([[5]]), cache=cache)
        with capture(model) as whole:
            model(Tokens.of([[1, 2, 3, 4]]))
    for name, weights in found.weights().items():
        assert weights[0].shape[1:] == (1, 4)
        assert torch.equal(weights[0], before[name][0])
        torch.testing.assert_close(weights[0][:, 0], whole.weights()[name][0][:, -1])


def test_the_last_pass_is_kept_and_training_goes_on():
    config, model = model_of("bert-base")
    with capture(model) as found:
        model(batch_for(config))
        model(batch_for(config, rows=[0])).states.sum().backward()
    assert all(len(weights) == 1 for weights in found.weights().values())
    assert all(not call.q.requires_grad for calls in found.calls.values() for call in calls)


def test_the_model_is_not_touched_and_recording_ends_even_on_errors():
    config, model = model_of("bert-base")
    before = count_hooks(model)
    with capture(model):
        assert count_hooks(model) == before
        assert len(recorders()) == 1
        model(batch_for(config))
    with pytest.raises(ZeroDivisionError), capture(model):
        raise ZeroDivisionError
    assert recorders() == ()


def test_captures_inside_each_other_see_the_same():
    config, model = model_of("gpt2")
    with capture(model) as outer, capture(model) as inner:
        model(batch_for(config))
    for name, weights in outer.weights().items():
        assert all(torch.equal(a, b) for a, b in zip(weights, inner.weights()[name], strict=True))


def test_a_capture_sees_its_own_model_and_its_own_thread_alone():
    config, model = model_of("gpt2")
    other = make(config).eval()
    with capture(model) as found:
        other(batch_for(config))
        thread = threading.Thread(target=model, args=[batch_for(config)])
        thread.start()
        thread.join()
    assert found.calls == {}


def test_threads_capture_one_model_independently():
    config, model = model_of("gpt2")
    rows = [[[1 + number % 7] * (2 + number % 5)] for number in range(40)]

    def shapes(ids):
        with torch.no_grad(), capture(model) as found:
            model(Tokens.of(ids))
        return [weights.shape[1:] for layer in found.weights().values() for weights in layer]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(shapes, rows))
    assert found == [[(len(ids[0]), len(ids[0]))] * config.num_layers for ids in rows]


def test_a_model_without_attention_is_refused():
    with pytest.raises(UsageError, match="Linear has no attention"), capture(torch.nn.Linear(2, 2)):
        pass


def test_a_tap_does_not_break_a_compiled_graph():
    class Watched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tap = Tap()

        def forward(self, x):
            self.tap.begin(0)
            self.tap(x)
            return x + 1 if self.tap.watched else x + 2

    compiled = torch.compile(Watched(), backend="eager", fullgraph=True)
    assert compiled(torch.zeros(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", EVERY)
def test_training_is_the_same_bit_for_bit_while_it_is_watched(name):
    config = catalogue.override(MODELS[name], {"dropout": 0.2})
    model, batch = make(config, train=True), batch_for(config)

    def learned():
        torch.manual_seed(5)
        model.zero_grad()
        states = model(batch).states
        states.square().sum().backward()
        return [states.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    plain = learned()
    with capture(model) as found:
        watched = learned()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    for weights in found.weights().values():
        for one in weights:
            torch.testing.assert_close(one.sum(-1), torch.ones(one.shape[:-1]))  # before dropout


@pytest.mark.parametrize("name", ["bert-base", "vit-b16", "gpt2"])
def test_a_head_that_reads_one_row_gets_the_same_bits_while_all_rows_are_watched(name):
    config, model = model_of(name, heads=["classify"])
    batch = batch_for(config)
    plain = model.logits(model.states_for(batch, "classify"), "classify")
    with capture(model) as found:
        watched = model.logits(model.states_for(batch, "classify"), "classify")
    assert torch.equal(plain, watched)
    with capture(model) as whole:
        model(batch)
    for weights, others in zip(found.weights().values(), whole.weights().values(), strict=True):
        for one, other in zip(weights, others, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["rnn-base", "convs2s-tiny", "transformer-base", "t5-small", "gpt2"])
def test_a_search_is_the_same_bit_for_bit_while_it_is_watched(name, beam):
    _, model = model_of(name)

    def said():
        start = model.start(Tokens.of([[4, 5, 6, 7], [8, 9]]))
        first = start.first if name == "gpt2" else torch.tensor([0, 0])
        found = generate(start, first, end_id=1, max_lengths=[6, 6], config=DecodingConfig(beam=beam))
        return [(one.ids, one.scores, one.score) for several in found for one in several]

    plain = said()
    with capture(model) as found:
        watched = said()
    assert plain == watched
    assert found.weights()


def test_each_step_of_a_greedy_search_attends_as_the_whole_path_does():
    _, model = model_of("transformer-base")
    source, seen = Tokens.of([[4, 5, 6, 7]]), []

    class Steps:
        def begin(self, tap, layer):
            pass

        def add(self, tap, call):
            if tap is model.decoder.blocks[-1].cross.part.tap:
                seen.append(kernels.weights(call)[0])

    with recording(Steps()):
        ((best,),) = generate(model.start(source), torch.tensor([0]), end_id=1, max_lengths=[5])
    path = [0, *best.ids][: len(seen)]
    with capture(model) as found:
        model(Pairs(source, Tokens.of([path])))
    (whole,) = found.weights()["decoder.blocks.1.cross.part"]
    torch.testing.assert_close(torch.cat(seen, dim=1), whole)


def test_a_recurrent_batch_is_told_apart_by_sequence():
    config, model = model_of("rnn-base")
    with capture(model) as found:
        model(batch_for(config))
    ((whole,),) = (found.weights().values(),)
    for number, (target, source) in enumerate(zip(LENGTHS[::-1], LENGTHS, strict=True)):
        assert whole[number].shape == (1, target, source)
        with capture(model) as alone:
            model(batch_for(config, rows=[number]))
        ((one,),) = alone.weights().values()
        torch.testing.assert_close(whole[number], one)


@pytest.mark.parametrize("position", POSITIONS)
def test_one_head_is_that_head_of_all(position):
    _, model = model_of("gpt2", position=position, num_kv_heads=2)
    with capture(model) as found:
        model(Tokens.of([[1, 2, 3, 4, 5], [6, 7]]))
    for calls in found.calls.values():
        whole = weights_of(calls)
        for head in range(4):
            alone = weights_of([one_head(call, head) for call in calls])
            for one, other in zip(alone, whole, strict=True):
                torch.testing.assert_close(one[0], other[head])
