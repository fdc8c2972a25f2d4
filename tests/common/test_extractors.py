"""The feature extractors compute what their papers and docstrings say."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from torch import nn

from sb3_ext.common.extractors import DiscreteEmbedding, ImpalaCNN, NormalizedMlp, SmallCNN

IMAGES = spaces.Box(0.0, 1.0, (3, 36, 20), np.float32)
VECTORS = spaces.Box(-np.inf, np.inf, (2,), np.float32)


def convolutions(extractor):
    return [module for module in extractor.modules() if isinstance(module, nn.Conv2d)]


def test_impala_has_three_stages_that_halve_the_image():
    extractor = ImpalaCNN(IMAGES, features_dim=7, channels=(4, 5, 6))
    assert [(conv.in_channels, conv.out_channels) for conv in convolutions(extractor)] == [
        *[(3, 4), (4, 4), (4, 4), (4, 4), (4, 4)],
        *[(4, 5), (5, 5), (5, 5), (5, 5), (5, 5)],
        *[(5, 6), (6, 6), (6, 6), (6, 6), (6, 6)],
    ]
    assert all(conv.kernel_size == (3, 3) and conv.padding == (1, 1) for conv in convolutions(extractor))
    assert extractor.linear[0].in_features == 6 * 5 * 3, "36 x 20, halved three times and rounded up"
    features = extractor(th.rand(2, 3, 36, 20))
    assert features.shape == (2, 7) == (2, extractor.features_dim)


def test_a_residual_block_adds_to_what_it_is_given():
    extractor = ImpalaCNN(IMAGES, features_dim=7, channels=(4,))
    first, *residual = convolutions(extractor)
    for conv in residual:
        nn.init.zeros_(conv.weight)
        nn.init.zeros_(conv.bias)
    images = th.rand(2, 3, 36, 20)
    pooled = nn.functional.max_pool2d(first(images), 3, stride=2, padding=1)
    expected = extractor.linear[0](pooled.relu().flatten(1)).relu()
    assert th.allclose(extractor(images), expected, atol=1e-6)
    nn.init.ones_(residual[1].bias)
    expected = extractor.linear[0]((pooled + 1).relu().flatten(1)).relu()
    assert th.allclose(extractor(images), expected, atol=1e-6)


@pytest.mark.parametrize("space", [VECTORS, spaces.Box(0, 255, (4, 4), np.uint8)])
@pytest.mark.parametrize("extractor", [ImpalaCNN, SmallCNN])
def test_what_is_no_image_is_refused(extractor, space):
    with pytest.raises(ValueError, match=f"{extractor.__name__} is for images"):
        extractor(space)


def test_a_small_cnn_is_what_it_was_configured_to_be():
    extractor = SmallCNN(IMAGES, 7, channels=[4, 5], kernels=[3, 2], strides=[2, 1], pool=2)
    images = th.rand(2, 3, 36, 20)
    first, second = convolutions(extractor)
    inner = second(first(nn.functional.avg_pool2d(images, 2)).relu()).relu()
    assert inner.shape == (2, 5, 7, 3)
    assert th.allclose(extractor(images), extractor.linear[0](inner.flatten(1)).relu())


def test_a_small_cnn_with_layer_norm_does_not_depend_on_the_scale_of_its_first_layer():
    extractor = SmallCNN(IMAGES, 7, channels=(4,), kernels=(3,), strides=(1,), layer_norm=True)
    images = th.rand(2, 3, 36, 20)
    before = extractor(images)
    for parameter in convolutions(extractor)[0].parameters():
        parameter.data *= 100
    assert th.allclose(extractor(images), before, atol=1e-3)


def test_a_small_cnn_can_normalise_its_last_layer_alone():
    extractor = SmallCNN(IMAGES, 7, channels=(4,), kernels=(3,), strides=(1,), layer_norm="last")
    assert [type(layer) for layer in extractor.cnn] == [nn.Conv2d, nn.ReLU, nn.Flatten]
    assert [type(layer) for layer in extractor.linear] == [nn.Linear, nn.LayerNorm, nn.ReLU]


def test_a_small_cnn_sees_images_around_the_mean_of_its_first_minibatch():
    plain, centred = (SmallCNN(IMAGES, 7, channels=(4,), kernels=(3,), strides=(1,), centre=c) for c in (False, True))
    centred.cnn[1].load_state_dict(plain.cnn[0].state_dict())
    centred.linear.load_state_dict(plain.linear.state_dict())
    centred.eval()
    first, second = th.rand(5, 3, 36, 20), th.rand(2, 3, 36, 20) + 1
    assert th.allclose(centred(first), plain(first)), "only training data counts"
    with th.no_grad():
        centred.train()(first)
    assert not centred.cnn[0].is_set, "without gradients it is not a minibatch"
    for images in (first, second):  # the second minibatch changes nothing
        expected = (images - first.mean(0)) / (first - first.mean(0)).std(correction=0)
        assert th.allclose(centred(images), plain(expected), atol=1e-5)
    assert th.allclose(centred.eval()(second), plain(expected), atol=1e-5)


@pytest.mark.parametrize("centre", [False, True])
def test_a_small_cnn_that_crops_sees_what_is_left(centre):
    options = {"channels": (4,), "kernels": (3,), "strides": (1,), "pool": 2, "centre": centre}
    cropped = SmallCNN(IMAGES, 7, **options, crop=(3, 1, 2, 0))
    plain = SmallCNN(spaces.Box(0, 255, (3, 32, 18), np.uint8), 7, **options)
    plain.load_state_dict(dict(zip(plain.state_dict(), cropped.state_dict().values(), strict=True)))
    images = th.rand(2, 3, 36, 20)
    assert th.equal(cropped(images), plain(images[:, :, 3:35, 2:]))


def test_images_that_are_all_the_same_can_be_centred():
    extractor = SmallCNN(IMAGES, 7, channels=(4,), kernels=(3,), strides=(1,), centre=True)
    assert extractor(th.ones(5, 3, 36, 20)).isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": [4]}, "need one for each layer"),
        ({"pool": 4}, "are too small for kernels="),
        ({"pool": 0}, "at least 1"),
        ({"crop": (20, 15, 0, 0)}, "are too small for kernels="),
        ({"crop": (1, 2)}, "at the top, bottom, left and right"),
        ({"crop": (0, 0, 0, -1)}, "at the top, bottom, left and right"),
        ({"layer_norm": "first"}, "must be true, false or 'last'"),
    ],
)
def test_a_small_cnn_that_does_not_fit_says_so(options, message):
    with pytest.raises(ValueError, match=message):
        SmallCNN(IMAGES, **options)


def test_the_running_statistics_are_those_of_all_batches_together():
    extractor = NormalizedMlp(VECTORS)
    data = th.randn(100, 2) * th.tensor([10.0, 0.1]) + th.tensor([5.0, -5.0])
    for batch in data.split([10, 1, 60, 29]):
        extractor(batch)
    th.testing.assert_close(extractor.mean, data.mean(0), rtol=1e-3, atol=1e-3)
    th.testing.assert_close(extractor.variance, data.var(0, unbiased=False), rtol=1e-3, atol=1e-3)
    assert extractor.count.item() == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("mode", ["eval", "no_grad"])
def test_only_what_is_learned_from_counts(mode):
    extractor = NormalizedMlp(VECTORS)
    if mode == "eval":
        extractor.eval()(th.ones(5, 2))
    else:
        with th.no_grad():
            extractor(th.ones(5, 2))
    assert (extractor.mean == 0).all() and (extractor.variance == 1).all()


def test_normalised_observations_are_clipped_on_either_side():
    extractor = NormalizedMlp(VECTORS, clip=2.0).eval()
    assert extractor(th.tensor([[1.5, 3.0], [-3.0, -1.5]])).tolist() == [
        pytest.approx([1.5, 2.0]),
        pytest.approx([-2.0, -1.5]),
    ]


def test_the_features_of_normalised_observations_come_from_a_layer_with_tanh():
    extractor = NormalizedMlp(spaces.Discrete(3), features_dim=4).eval()
    one_hot = th.eye(3)
    assert extractor.features_dim == 4
    assert th.allclose(extractor(one_hot), th.tanh(extractor.linear[0](one_hot)), atol=1e-6)
    assert NormalizedMlp(spaces.Discrete(3)).features_dim == 3


def test_an_embedding_is_the_column_of_its_state():
    extractor = DiscreteEmbedding(spaces.MultiDiscrete([2, 3]), features_dim=4)
    state = th.tensor([[0.0, 1.0, 1.0, 0.0, 0.0]])
    weight = extractor.embedding.weight
    assert th.allclose(extractor(state), (weight[:, 1] + weight[:, 2])[None])
    assert extractor.features_dim == 4
