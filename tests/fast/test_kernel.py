"""The kernel in C computes what torch computes, on every kind of processor, and refuses what it can't use."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import torch as th
from kernel_cases import ADAM, BERNOULLI, GAUSSIAN, GSDE, NO_LIMIT, NO_OPTIMIZER, PPO_LOSS, RMS_PROP, Case, exercise
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from sb3_ext.fast.kernel import WHY_NOT, Kernel, gae

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
ISAS = ["base", "avx2", "avx512"]
CASES = {
    "small": {},
    "one_sample": {"n": 1},
    "several_blocks": {"n": 300},
    "odd_widths": {"n_inputs": 3, "actor": (17, 5), "critic": (33,), "sizes": (7,)},
    "relu": {"activation": 1, "actor": (100, 80), "critic": (48, 32, 16)},
    "no_hidden": {"actor": (), "critic": ()},
    "multi_discrete": {"sizes": (2, 5, 3)},
    "box": {"kind": GAUSSIAN, "sizes": (1, 1, 1)},
    "gsde": {"kind": GSDE, "sizes": (1, 1, 1)},
    "multi_binary": {"kind": BERNOULLI, "sizes": (1, 1)},
    "one_hot": {"one_hot": True, "n_inputs": 16},
    "wide": {"actor": (256, 530), "critic": (256,), "n": 40},
    "many_actions": {"sizes": (384,), "n": 20},
}


def make(case, isa="auto"):
    try:
        return Case(**CASES[case], isa=isa)
    except ValueError as error:
        assert "this processor does not have" in str(error)
        pytest.skip(str(error))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_values_log_probs_and_gradients_are_those_of_torch(name, isa):
    case = make(name, isa)
    values, log_probs, entropies = case.torch_values_and_log_probs()
    found_values, found_log_probs = case.evaluate()
    np.testing.assert_allclose(found_values, values.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found_log_probs, log_probs.detach(), rtol=1e-4, atol=1e-5)

    _, old_log_prob, advantages, returns = th.from_numpy(case.columns).T
    weights = th.exp(log_probs.detach() - old_log_prob).clamp(max=1)
    loss = -(weights * advantages * log_probs).mean() - 0.01 * entropies.mean() + 0.5 * ((values - returns) ** 2).mean()
    loss.backward()
    plain = (1, False, False, False, 0.0, -1.0, 0.01, 0.5, np.inf)
    _, tensors, metrics, _, _ = case.update(loss=plain, optimizer=(NO_OPTIMIZER, 0.0, 0.0, 0.0, 0.0))
    for parameters, (_, gradients, *_) in zip(case.parameters, tensors, strict=True):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            np.testing.assert_allclose(gradient, parameter.grad, rtol=1e-3, atol=1e-5)
    norm = th.nn.utils.get_total_norm([p.grad for part in case.parameters for p in part])
    assert metrics[0, 9] == pytest.approx(norm.item(), rel=1e-4)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", [ADAM, RMS_PROP])
def test_steps_are_those_of_the_optimizer(kind, isa):
    case, same = make("box", isa), make("box", isa)
    parameters = [parameter for part in same.parameters for parameter in part]
    if kind == ADAM:
        optimizer, settings = th.optim.Adam(parameters, 1e-2, betas=(0.8, 0.95), eps=1e-4), (1e-2, 0.8, 0.95, 1e-4)
    else:
        optimizer, settings = RMSpropTFLike(parameters, 1e-2, alpha=0.9, eps=1e-4), (1e-2, 0.0, 0.9, 1e-4)
    plain = (1, False, False, False, 0.0, -1.0, 0.01, 0.5, 0.5)
    bounds = np.array([0, 20, 50])
    _, _, _, count, orders = case.update(bounds, 3, plain, NO_LIMIT, (kind, *settings))
    assert count == 6
    for order in orders:
        for rows in (order[:20], order[20:]):
            values, log_probs, entropies = (numbers[rows] for numbers in same.torch_values_and_log_probs())
            _, old_log_prob, advantages, returns = th.from_numpy(same.columns[rows]).T
            weights = th.exp(log_probs.detach() - old_log_prob).clamp(max=1)
            actor = -(weights * advantages * log_probs).mean() - 0.01 * entropies.mean()
            optimizer.zero_grad()
            (actor + 0.5 * ((values - returns) ** 2).mean()).backward()
            th.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    for ours, theirs in zip(case.parameters, same.parameters, strict=True):
        for parameter, expected in zip(ours, theirs, strict=True):
            th.testing.assert_close(parameter, expected, rtol=1e-4, atol=1e-5)


def test_large_and_missing_numbers_reach_the_outputs_where_they_are_seen():
    case = Case()
    case.observations[0], case.observations[1, 0] = 1e30, np.nan
    values, log_probs = case.evaluate()
    assert np.isfinite(values[0])
    assert np.isnan(values[1])
    assert np.isnan(log_probs[1])
    assert np.isfinite(values[2:]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": np.zeros((50, 3), np.float32)}, "rows of 4"),
        ({"observations": np.zeros((50, 4))}, "observations has elements of type d, not float32"),
        ({"observations": np.zeros((50, 8), np.float32)[:, ::2]}, "contiguous"),
        ({"actions": np.zeros((49, 1), np.int64)}, "actions has 49 elements, not 50"),
        ({"actions": np.zeros((50, 1), np.float32)}, "actions has elements of type f, not int64"),
        ({"actions": np.full((50, 1), 2)}, "action 2 is outside 0 to 1"),
        ({"actions": np.full((50, 1), -1)}, "action -1 is outside"),
        ({"columns": np.zeros((50, 3), np.float32)}, "columns has 150 elements, not 200"),
    ],
)
def test_bad_arrays_are_errors(change, message):
    case = Case()
    for name, value in change.items():
        setattr(case, name, value)
    with pytest.raises((ValueError, TypeError, BufferError), match=message):
        case.update()


@pytest.mark.parametrize("bounds", [[0], [0, 49], [0, 51], [0, 30, 20, 50], [1, 50], [0, 0, 50], [0, 2**62, 50]])
def test_bad_bounds_of_minibatches_are_errors(bounds):
    with pytest.raises(ValueError, match="bounds must rise from 0"):
        Case().update(np.array(bounds))


def test_bad_orders_are_errors():
    case = Case()
    tensors, metrics = [case.tensors(0), case.tensors(1)], np.empty((1, 10))
    data, rest = (
        (case.observations, case.actions, case.columns),
        (1, PPO_LOSS, NO_LIMIT, (ADAM, 1e-3, 0.9, 0.99, 1e-5), False),
    )
    for order in (np.full(50, 50), np.full(50, -1)):
        with pytest.raises(ValueError, match="is outside 0 to 49"):
            case.kernel.update(*tensors, *data, order, np.array([0, 50]), metrics, np.zeros(1), *rest)
    with pytest.raises(ValueError, match="metrics has 10 elements, not 20"):
        bounds = np.array([0, 20, 50])
        case.kernel.update(*tensors, *data, np.arange(50), bounds, metrics, np.zeros(1), *rest)


def test_an_observation_outside_its_space_is_an_error():
    case = Case(one_hot=True, n_inputs=16)
    case.observations[3] = 16
    with pytest.raises(ValueError, match="observation 16 is outside 0 to 15"):
        case.evaluate()


@pytest.mark.parametrize(
    "arguments",
    [
        ((4, 2), (4, 1), 0, 0, (3,), False),
        ((4, 2), (5, 1), 0, 0, (2,), False),
        ((4, 2), (4, 2), 0, 0, (2,), False),
        ((4,), (4, 1), 0, 0, (4,), False),
        ((4, 0, 2), (4, 1), 0, 0, (2,), False),
        ((4, *[8] * 16, 2), (4, 1), 0, 0, (2,), False),
        ((4, 2), (4, 1), 2, 0, (2,), False),
        ((4, 2), (4, 1), 0, 3, (2,), False),
        ((4, 2), (4, 1), 0, 1, (2,), False),
        ((4, 2), (4, 1), 0, 0, (), False),
        ((4, 2), (4, 1), 0, 0, (2,), False, "mmx"),
    ],
)
def test_networks_that_do_not_fit_are_errors(arguments):
    with pytest.raises(ValueError):
        Kernel(*arguments)


def test_a_missing_tensor_is_an_error():
    case = Case()
    with pytest.raises(ValueError, match="a list of 6 arrays"):
        case.kernel.act(case.tensors(0)[0][:-1], case.observations, None, np.empty(50, np.int64))


def test_parameters_that_change_between_calls_are_seen():
    case = Case()
    before = case.evaluate()[0]
    with th.no_grad():
        case.networks[1][0].weight.data[0, 0] += 1.0
    values, _, _ = case.torch_values_and_log_probs()
    after = case.evaluate()[0]
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, values.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("two_threads", [False, True])
def test_ctrl_c_ends_an_update_between_epochs_with_the_steps_that_were_made(two_threads):
    case = Case(n=4096)
    before = case.parameters[0][0].detach().clone()
    count, n_epochs = np.zeros(1), 20_000
    tensors, data = [case.tensors(0), case.tensors(1)], (case.observations, case.actions, case.columns)
    orders = np.zeros((n_epochs, 64), np.int64)
    rest = (n_epochs, PPO_LOSS, NO_LIMIT, (ADAM, 1e-3, 0.9, 0.999, 1e-5), two_threads)

    def interrupt(*_):
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            case.kernel.update(*tensors, *data, orders, np.array([0, 64]), np.empty((n_epochs, 10)), count, *rest)
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert 0 < count[0] < n_epochs
    assert not th.equal(before, case.parameters[0][0])


@pytest.mark.parametrize(
    "limit", [NO_LIMIT, (True, False, False, 0.1), (False, True, False, 0.1), (True, False, True, 0.1)]
)
def test_two_threads_give_the_same_to_the_last_bit(limit):
    both = []
    for two_threads in (False, True):
        case = Case(n=300, kind=GAUSSIAN, sizes=(1, 1))
        case.columns[:, 1] = case.evaluate()[1]
        bounds, optimizer = np.array([0, 100, 200, 300]), (ADAM, 1e-2, 0.9, 0.999, 1e-5)
        result, tensors, metrics, count, _ = case.update(bounds, 5, PPO_LOSS, limit, optimizer, two_threads)
        assert result[2] == (limit is not NO_LIMIT)
        both.append((result, count, metrics[: result[0]].tolist(), [a.tolist() for t in tensors for p in t for a in p]))
    assert both[0] == both[1]


def test_advantages_are_those_of_sb3():
    random = np.random.default_rng(0)
    n_steps, n_envs, gamma, gae_lambda = 20, 3, 0.97, 0.9
    rewards, values = random.normal(size=(2, n_steps, n_envs)).astype(np.float32)
    starts = (random.random((n_steps, n_envs)) < 0.2).astype(np.float32)
    last_values, dones = random.normal(size=n_envs).astype(np.float32), np.array([0, 1, 0], np.float32)
    advantages, returns = np.empty_like(values), np.empty_like(values)
    gae(rewards, values, starts, last_values, dones, advantages, returns, n_steps, n_envs, gamma, gae_lambda)
    expected, last = np.empty_like(values), 0
    for step in reversed(range(n_steps)):
        goes_on = 1 - (dones if step == n_steps - 1 else starts[step + 1])
        next_values = last_values if step == n_steps - 1 else values[step + 1]
        last = rewards[step] + gamma * next_values * goes_on - values[step] + gamma * gae_lambda * goes_on * last
        expected[step] = last
    np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(returns, expected + values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_random_shapes_pass_through(isa):
    make("small", isa)
    for seed in range(30):
        exercise(seed, isa)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.skipif(not Path(sysconfig.get_paths()["include"], "Python.h").exists(), reason="no Python headers")
def test_random_shapes_pass_through_a_build_with_sanitizers(tmp_path):
    """Reads and writes outside of arrays, and undefined arithmetic, end the process."""
    import sb3_ext.fast.kernel as package

    folder = Path(package.__file__).parent
    library = tmp_path / "_kernel.abi3.so"
    include = sysconfig.get_paths()["include"]
    flags = "-O1 -g -std=gnu11 -fPIC -shared -fno-math-errno -Wno-psabi -fsanitize=address,undefined"
    flags += " -fno-sanitize-recover=all -fno-sanitize=alignment"
    command = ["gcc", *flags.split(), f"-I{include}", str(folder / "kernel.c"), "-o", str(library), "-lm"]
    subprocess.run(command, check=True, timeout=300)
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(asan.stdout.strip()).is_absolute():
        pytest.skip("gcc has no address sanitizer")
    code = (
        "import sys, importlib.util as u; "
        f"spec = u.spec_from_file_location('sb3_ext.fast.kernel._kernel', {str(library)!r}); "
        "module = u.module_from_spec(spec); sys.modules[spec.name] = module; spec.loader.exec_module(module); "
        "import sb3_ext.fast.kernel as k; assert k.Kernel is module.Kernel; "
        "import kernel_cases; [kernel_cases.exercise(seed) for seed in range(60)]; print('done')"
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": asan.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.strip() == "done"
