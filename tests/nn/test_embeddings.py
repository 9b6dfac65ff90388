import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from qkv.common.batch import Images, Tokens
from qkv.common.errors import UsageError
from qkv.nn.attention import PassContext
from qkv.nn.cache import KeyValueCache
from qkv.nn.embeddings import PatchEmbeddings, TextEmbeddings
from qkv.nn.positions import LearnedPosition, SinusoidalPosition

IDS = [[3, 1, 4], [1], [5, 2]]


def ready(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.eval()


def run(embeddings, tokens, cache=None):
    return embeddings(tokens, PassContext.of(tokens.layout, cache=cache).place)


def test_token_segment_and_position_are_summed_then_normed():
    embeddings = ready(
        TextEmbeddings(7, 4, num_segments=2, position=LearnedPosition(3, 4), norm=nn.LayerNorm(4), scale=2.0)
    )
    segments = [[0, 1, 1], [1], [0, 0]]
    found = run(embeddings, Tokens.of(IDS, segments=segments))
    row = 0
    for sequence, kinds in zip(IDS, segments, strict=True):
        for place, (token, kind) in enumerate(zip(sequence, kinds, strict=True)):
            x = 2.0 * embeddings.token.weight[token]
            x = x + embeddings.segment.weight[kind] + embeddings.position.table.weight[place]
            torch.testing.assert_close(found[row], embeddings.norm(x))
            row += 1
    assert row == len(found)


def test_learned_positions_can_be_given():
    learned = ready(TextEmbeddings(7, 4, position=LearnedPosition(9, 4)))
    tokens, given = Tokens.of(IDS), torch.tensor([6, 7, 8, 0, 4, 5])
    found = run(learned, dataclasses.replace(tokens, positions=given))
    torch.testing.assert_close(found, learned.token(tokens.ids) + learned.position.table(given))
    sinusoidal = ready(TextEmbeddings(7, 4, position=SinusoidalPosition(4)))
    assert run(sinusoidal, dataclasses.replace(tokens, positions=given)).equal(run(sinusoidal, tokens))


def test_a_row_reaches_back_within_its_own_sequence():
    embeddings = ready(TextEmbeddings(7, 4, conv_width=2))
    found, row = run(embeddings, Tokens.of(IDS)), 0
    for sequence in IDS:
        before = torch.zeros(4)
        for token in sequence:
            x = embeddings.token.weight[token]
            seen = embeddings.convolution.linear(torch.cat([x, before]))
            torch.testing.assert_close(found[row], x + F.relu(seen))
            before, row = x, row + 1


def test_without_segments_all_belong_to_the_first():
    embeddings = ready(TextEmbeddings(7, 4, num_segments=2))
    told = run(embeddings, Tokens.of(IDS, segments=[[0] * len(s) for s in IDS]))
    torch.testing.assert_close(run(embeddings, Tokens.of(IDS)), told)
    other = run(embeddings, Tokens.of(IDS, segments=[[1] * len(s) for s in IDS]))
    assert not torch.allclose(told, other)


def test_scale_multiplies_the_token_alone():
    embeddings = ready(TextEmbeddings(7, 4, position=SinusoidalPosition(4), scale=math.sqrt(4)))
    found = run(embeddings, Tokens.of([[6]]))
    # At position 0 the sines are 0 and the cosines 1.
    torch.testing.assert_close(found[0], 2 * embeddings.token.weight[6] + torch.tensor([0.0, 0.0, 1.0, 1.0]))


def test_a_narrow_table_is_projected_up():
    embeddings = ready(TextEmbeddings(7, 6, embedding_dim=2, norm=nn.LayerNorm(2)))
    assert embeddings.table.shape == (7, 2)
    found = run(embeddings, Tokens.of([[3, 5]]))
    x = embeddings.norm(embeddings.token.weight[[3, 5]])
    torch.testing.assert_close(found, x @ embeddings.project.weight.t() + embeddings.project.bias)


def test_a_sequence_longer_than_the_table_names_both_numbers():
    embeddings = ready(TextEmbeddings(7, 4, position=LearnedPosition(3, 4)))
    run(embeddings, Tokens.of([[1] * 3]))
    with pytest.raises(UsageError, match=r"4 tokens.*max_length of 3"):
        run(embeddings, Tokens.of([[1], [1] * 4]))


def test_a_cache_that_outgrows_the_table_names_both_numbers():
    embeddings, cache = ready(TextEmbeddings(7, 4, position=LearnedPosition(3, 4))), KeyValueCache(1)
    run(embeddings, Tokens.of([[1, 2, 3]]), cache)
    with pytest.raises(UsageError, match=r"4 tokens.*max_length of 3"):
        run(embeddings, Tokens.of([[1]]), cache)


def test_sinusoidal_positions_have_no_limit():
    embeddings = ready(TextEmbeddings(7, 4, position=SinusoidalPosition(4)))
    assert run(embeddings, Tokens.of([[1] * 1000])).shape == (1000, 4)


def test_positions_go_on_after_a_cached_start():
    embeddings, cache = ready(TextEmbeddings(7, 4, position=LearnedPosition(5, 4))), KeyValueCache(2)
    whole = run(embeddings, Tokens.of([[1, 2, 3], [4, 5]]))
    run(embeddings, Tokens.of([[1, 2], [4]]), cache)
    torch.testing.assert_close(run(embeddings, Tokens.of([[3], [5]]), cache), whole[[2, 4]])


def patches(**options):
    return ready(PatchEmbeddings(image_size=6, patch_size=2, channels=3, dim=5, **options))


@pytest.mark.parametrize("distilled", [False, True])
def test_patches_come_row_by_row_after_the_leading_tokens(distilled):
    embeddings = patches(distilled=distilled, position=LearnedPosition(11 if distilled else 10, 5))
    pixels = torch.randn(2, 3, 6, 6)
    x, layout = embeddings(Images(pixels))
    columns = F.unfold(pixels, 2, stride=2).transpose(1, 2)  # [B, 9, C * 2 * 2], row by row
    wanted = columns @ embeddings.project.weight.flatten(1).t() + embeddings.project.bias
    wanted = torch.cat([embeddings.leading.expand(2, -1, -1), wanted], dim=1) + embeddings.position.table.weight
    assert layout.host_lengths == [11 if distilled else 10] * 2
    torch.testing.assert_close(x, wanted.flatten(0, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 3, 6, 4), (1, 1, 6, 6), (3, 6, 6)])
def test_images_of_another_shape_are_an_error_with_both_shapes(shape):
    with pytest.raises(UsageError) as caught:
        patches()(Images(torch.zeros(shape)))
    assert "3, 6, 6" in str(caught.value)
    assert str(list(shape)) in str(caught.value)


def test_conv_width_is_at_least_the_token_itself():
    with pytest.raises(UsageError, match="conv_width must be at least 1, got 0"):
        TextEmbeddings(7, 4, conv_width=0)
