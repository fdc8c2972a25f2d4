"""On the fast path, training is what it is on the plain one: the same actions, minibatches and parameters."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import NatureCNN
from torch.nn.utils import prune as torch_prune

from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.common.extractors import ImpalaCNN, SmallCNN
from sb3_ext.fast import image_policy

pytestmark = pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
PPO_SETTINGS = {"n_steps": 32, "batch_size": 16, "n_epochs": 3}


def make(algorithm, env, policy="MlpPolicy", n_envs=2, **kwargs):
    return algorithm(policy, make_vec_env(env, n_envs=n_envs, seed=3), seed=3, device="cpu", **kwargs)


def assert_close(ours, theirs):
    assert np.allclose(ours._last_obs, theirs._last_obs, rtol=1e-3, atol=1e-4)
    expected = theirs.policy.state_dict()
    for name, value in ours.policy.state_dict().items():
        assert th.allclose(value, expected[name], rtol=1e-4, atol=1e-5), name
    ours_state, state = ours.policy.optimizer.state_dict()["state"], theirs.policy.optimizer.state_dict()["state"]
    for i, entry in state.items():
        for name, value in entry.items():
            assert th.allclose(ours_state[i][name], value, rtol=1e-2, atol=1e-4), name
    assert_same_logs(ours, theirs)


def assert_same_logs(ours, theirs):
    logged, expected = (
        {name: value for name, value in model.logger.name_to_value.items() if name.startswith("train/")}
        for model in (ours, theirs)
    )
    if type(theirs) is type(ours):
        assert logged.keys() == expected.keys()
    else:
        # Ours are means over all epochs and counts of those that ran
        expected = {n: value for n, value in expected.items() if n not in ("train/approx_kl", "train/n_updates")}
        assert logged.keys() >= expected.keys()
    for name, value in expected.items():
        # A ratio at the edge of the clip range may fall to either side
        tolerance = 0.05 if name == "train/clip_fraction" else 1e-3
        assert logged[name] == pytest.approx(value, rel=1e-2, abs=tolerance), name


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"clip_range_vf": 0.1, "ent_coef": 0.01, "normalize_advantage": False},
        {"learning_rate": lambda progress: 1e-3 * progress, "clip_range": lambda progress: 0.1 + 0.1 * progress},
        {"batch_size": 20},
        {"target_kl": 0.004, "learning_rate": 1e-2},
        {"policy_kwargs": {"net_arch": {"pi": [16], "vf": [32, 8]}, "activation_fn": th.nn.ReLU}},
        {"policy_kwargs": {"net_arch": []}},
        {"policy_kwargs": {"optimizer_class": th.optim.RMSprop}},
        {"policy_kwargs": {"optimizer_class": th.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.1}}},
        {"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 0.1}}},
        {"policy_kwargs": {"optimizer_kwargs": {"betas": (0.6, 0.9), "eps": 1e-3}}, "max_grad_norm": 0.05},
        {"policy_kwargs": {"share_features_extractor": False}, "vf_coef": 0.1, "gae_lambda": 0.7, "gamma": 0.9},
    ],
    ids=["defaults", "value_clipping", "schedules", "stub", "target_kl", "networks", "no_hidden", "rmsprop", "adamw",
         "adam_decay", "adam_options", "unshared"],
)  # fmt: skip
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_parameters_are_those_of_ppo_after_several_updates(env, kwargs):
    ours, stock = (make(algorithm, env, **{**PPO_SETTINGS, **kwargs}).learn(256) for algorithm in (PPOExt, PPO))
    assert ours.fast_policy is not None
    assert_close(ours, stock)


@pytest.mark.parametrize("freq", [-1, 3])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_parameters_are_those_of_ppo_with_gsde(freq, n_envs):
    settings = {**PPO_SETTINGS, "use_sde": True, "sde_sample_freq": freq, "ent_coef": 0.01}
    ours, stock = (make(a, "Pendulum-v1", n_envs=n_envs, **settings).learn(384) for a in (PPOExt, PPO))
    assert ours.fast_policy is not None
    assert_close(ours, stock)
    observations = ours.get_env().reset()
    for deterministic in (True, False):
        with ours._fast_path.predicting(ours):
            actions, _ = ours.predict(observations, deterministic=deterministic)
        np.testing.assert_allclose(actions, ours.predict(observations, deterministic=deterministic)[0], atol=1e-5)


@pytest.mark.parametrize("actions", ["Discrete", "MultiDiscrete", "MultiBinary", "Box"])
@pytest.mark.parametrize("observations", [spaces.Box(0, 255, (8,), np.uint8), spaces.Box(-1, 1, (2, 3), np.float64)])
def test_the_parameters_are_those_of_ppo_in_other_spaces(observations, actions):
    def env():
        return RandomEnv(observations, ACTION_SPACES[actions])

    ours, stock = (make(algorithm, env, **PPO_SETTINGS).learn(256) for algorithm in (PPOExt, PPO))
    assert ours.fast_policy is not None
    assert_close(ours, stock)


@pytest.mark.parametrize(
    ("actions", "extractor", "options", "n_updates"),
    [
        ("Discrete", NatureCNN, {}, 4),
        ("Box", NatureCNN, {}, 4),
        # After one update, rounding differences of these two grow on some processors
        ("Discrete", ImpalaCNN, {"channels": (4,)}, 1),
        ("Discrete", SmallCNN, {"kernels": (3, 2), "strides": (2, 1), "centre": True, "crop": (2, 1, 0, 3)}, 1),
        ("Discrete", SmallCNN, {"pool": 2, "kernels": (3, 2), "strides": (2, 1), "layer_norm": True}, 4),
    ],
)
def test_the_parameters_are_those_of_ppo_from_images(actions, extractor, options, n_updates):
    def env():
        return RandomEnv(OBSERVATION_SPACES["image"], ACTION_SPACES[actions])

    kwargs = {"features_extractor_class": extractor, "features_extractor_kwargs": options}
    settings = {**PPO_SETTINGS, "policy_kwargs": kwargs}
    ours, stock = (make(a, env, "CnnPolicy", **settings).learn(64 * n_updates) for a in (PPOExt, PPO))
    assert ours.fast_policy is not None
    assert_close(ours, stock)


@pytest.mark.parametrize("convolves", [True, False])
def test_reinforce_from_images_is_the_same_on_both_paths(convolves, monkeypatch):
    monkeypatch.setattr(image_policy, "_CONVOLVES", convolves)  # as on processors with and without AVX-512

    def env():
        return RandomEnv(OBSERVATION_SPACES["image"], ACTION_SPACES["Discrete"])

    fast, plain = (make(partial(REINFORCE, fast=f), env, "CnnPolicy", n_steps=32).learn(256) for f in (True, False))
    assert fast.fast_policy is not None
    assert_close(fast, plain)


@pytest.mark.parametrize(
    ("algorithm", "kwargs"),
    [
        (REINFORCE, {"n_steps": 64, "batch_size": 32}),
        (REINFORCE, {"n_steps": 64, "batch_size": 32, "normalize_returns": "batch", "baseline": "mean"}),
        (REINFORCE, {"n_steps": 16, "ent_coef": 0.05, "vf_coef": 0.2, "learning_rate": 1e-2, "max_grad_norm": 0.1}),
        (A2CExt, {"n_steps": 8}),
        (A2CExt, {"n_steps": 8, "normalize_advantage": True, "ent_coef": 0.01, "use_rms_prop": False}),
    ],
)
def test_the_other_algorithms_are_the_same_on_both_paths(algorithm, kwargs):
    fast, plain = (make(partial(algorithm, fast=fast), "CartPole-v1", **kwargs).learn(1024) for fast in (True, False))
    assert fast.fast_policy is not None
    assert_close(fast, plain)


def test_the_parameters_are_those_of_ppo_from_numbered_states():
    ours, stock = (make(algorithm, "FrozenLake-v1", **PPO_SETTINGS).learn(512) for algorithm in (PPOExt, PPO))
    assert ours.fast_policy is not None
    assert_close(ours, stock)


@pytest.mark.parametrize(
    ("env", "kwargs"),
    [
        ("CartPole-v1", {"clip_range_vf": 0.05, "learning_rate": 1e-2}),
        ("FrozenLake-v1", {}),
        ("Pendulum-v1", {"clip_range_vf": 0.05, "value_loss": "huber", "ent_coef": 0.01}),
    ],
)
def test_normalised_values_are_the_same_on_both_paths(env, kwargs):
    kwargs = {**PPO_SETTINGS, "normalize_values": True, **kwargs}
    fast, plain = (make(partial(PPOExt, fast=fast), env, **kwargs).learn(512) for fast in (True, False))
    assert fast.fast_policy is not None
    assert_close(fast, plain)


@pytest.mark.parametrize("scope", ["minibatch", "epoch"])
def test_rollback_and_the_adaptive_learning_rate_are_the_same_on_both_paths(scope):
    kwargs = {"target_kl": 0.002, "kl_rollback": True, "kl_stop_scope": scope, "kl_adaptive_lr": 0.002}
    kwargs["learning_rate"] = 1e-2
    fast, plain = (
        make(partial(PPOExt, fast=fast), "CartPole-v1", **PPO_SETTINGS, **kwargs).learn(512) for fast in (True, False)
    )
    assert fast.kl_stops == plain.kl_stops > 0
    assert_close(fast, plain)


def test_a_saved_agent_goes_on_as_ppo_does(tmp_path):
    agents = []
    for algorithm in (PPOExt, PPO):
        make(algorithm, "CartPole-v1", **PPO_SETTINGS).learn(128).save(tmp_path / "agent")
        agent = algorithm.load(tmp_path / "agent", env=make_vec_env("CartPole-v1", n_envs=2, seed=9), device="cpu")
        agent.set_random_seed(9)
        agents.append(agent.learn(128, reset_num_timesteps=False))
    assert_close(*agents)


def test_what_is_saved_loads_as_stock_ppo(tmp_path):
    ours = make(PPOExt, "CartPole-v1", **PPO_SETTINGS).learn(128)
    ours.save(tmp_path / "agent")
    stock = PPO.load(tmp_path / "agent", env=make_vec_env("CartPole-v1", n_envs=2), device="cpu")
    pairs = zip(ours.policy.parameters(), stock.policy.parameters(), strict=True)
    assert all(th.equal(a, b) for a, b in pairs)
    stock.learn(128)


def test_a_path_can_be_left_and_taken_again_in_the_middle_of_training():
    agents = []
    for algorithm in (PPOExt, PPO):
        agents.append(make(algorithm, "CartPole-v1", **PPO_SETTINGS))
        for fast in (True, False, True):
            agents[-1].fast = fast
            agents[-1].learn(64, reset_num_timesteps=False)
    assert_close(*agents)


class Asks(BaseCallback):
    """Asks the policy something in the middle of a rollout, as callbacks do."""

    def _on_step(self):
        observations = th.as_tensor(self.locals["new_obs"])
        with th.random.fork_rng():
            _, values, log_probs = self.model.policy(observations)
        assert values.shape == (2, 1) and log_probs.shape == (2,)
        assert th.allclose(values, self.model.policy.predict_values(observations))
        return True


def test_callbacks_get_the_usual_answers_from_the_policy():
    assert_close(*(make(a, "CartPole-v1", **PPO_SETTINGS).learn(128, callback=Asks()) for a in (PPOExt, PPO)))


class Recorder(BaseCallback):
    """Keeps what callbacks see at each step, and how often they are called."""

    def __init__(self):
        super().__init__()
        self.steps, self.events = [], []

    def _on_rollout_start(self):
        self.events.append("start")

    def _on_rollout_end(self):
        self.events.append("end")

    def _on_step(self):
        seen = {name: np.copy(self.locals[name]) for name in ("obs_tensor", "new_obs", "rewards", "dones", "actions")}
        self.steps.append(
            {**seen, "n_steps": self.locals["n_steps"], "names": {*self.locals}, "total": self.num_timesteps}
        )
        return len(self.steps) < 80


@pytest.mark.parametrize("actions", ["Discrete", "Box"])
@pytest.mark.parametrize("limit", [5, 10**6], ids=["truncated", "endless"])
def test_callbacks_see_what_they_see_in_sb3_also_where_time_limits_cut_episodes(actions, limit):
    def env():
        return TimeLimit(RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES[actions], length=7), limit)

    recorders = Recorder(), Recorder()
    ours, stock = (
        make(algorithm, env, **PPO_SETTINGS).learn(10**6, callback=recorder)
        for algorithm, recorder in zip((PPOExt, PPO), recorders, strict=True)
    )
    assert_close(ours, stock)
    assert recorders[0].events == recorders[1].events
    for mine, theirs in zip(recorders[0].steps, recorders[1].steps, strict=True):
        # The others are of a loop in the step before
        assert mine.pop("names") >= theirs.pop("names") - {"done", "idx", "terminal_obs", "terminal_value"}
        for name, value in theirs.items():
            np.testing.assert_allclose(mine[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert [info["l"] for info in ours.ep_info_buffer] == [info["l"] for info in stock.ep_info_buffer]


@pytest.mark.parametrize(
    ("env", "kwargs", "reason"),
    [
        ("CartPole-v1", {"policy_kwargs": {"layer_norm": True}}, "because of the layers Linear, LayerNorm, Tanh."),
        ("CartPole-v1", {"policy_kwargs": {"activation_fn": "elu"}}, "because of the layers Linear, ELU."),
        ("CartPole-v1", {"policy_kwargs": {"features_extractor_class": "NormalizedMlp"}}, "extractor NormalizedMlp."),
        ("Pendulum-v1", {"use_sde": True, "policy_kwargs": {"use_expln": True}}, "because of gSDE's options."),
    ],
)
def test_where_it_does_not_apply_the_plain_path_is_taken_and_said_once(env, kwargs, reason, capsys):
    model = make(PPOExt, env, verbose=1, **PPO_SETTINGS, **kwargs).learn(256)
    assert model.fast_policy is None
    said = [line for line in capsys.readouterr().out.splitlines() if "plain path" in line]
    assert len(said) == 1
    assert re.search(reason, said[0])


def test_a_policy_with_its_own_forward_is_left_alone():
    class Mine(PPOExt.policy_aliases["MlpPolicy"]):
        def evaluate_actions(self, *args, **kwargs):
            return super().evaluate_actions(*args, **kwargs)

    model = PPOExt(Mine, "CartPole-v1", device="cpu")
    assert model.fast_policy is None


def freeze(model):
    for parameter in model.policy.mlp_extractor.parameters():
        parameter.requires_grad_(False)


def replace_layer(model):
    model.policy.action_net = th.nn.Linear(64, 2)
    model.policy.optimizer = th.optim.Adam(model.policy.parameters(), lr=1e-3)


def replace_weight(model):
    model.policy.action_net.weight = th.nn.Parameter(th.randn(2, 64))
    model.policy.optimizer = th.optim.Adam(model.policy.parameters(), lr=1e-3)


def replace_policy(model):
    other = make(PPO, "CartPole-v1", **PPO_SETTINGS)
    model.policy = other.policy


def replace_optimizer(model):
    model.policy.optimizer = th.optim.SGD(model.policy.parameters(), lr=1e-2)


def optimize_a_part(model):
    model.policy.optimizer = th.optim.Adam(model.policy.value_net.parameters(), lr=1e-2)


def hook_a_module(model):
    model.policy.action_net.register_forward_hook(lambda module, inputs, output: output * 3)


def hook_a_parameter(model):
    model.policy.value_net.weight.register_hook(lambda gradient: gradient * 0)


def prune(model):
    torch_prune.l1_unstructured(model.policy.mlp_extractor.policy_net[0], "weight", 0.5)


def mix_activations(model):
    for layer in (1, 3):
        model.policy.mlp_extractor.value_net[layer] = th.nn.ReLU()


CHANGES = [
    freeze,
    mix_activations,
    replace_layer,
    replace_weight,
    replace_policy,
    replace_optimizer,
    optimize_a_part,
    hook_a_module,
    hook_a_parameter,
    prune,
]


@pytest.mark.parametrize("n_steps_before", [0, 128])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_done_to_the_policy_counts_as_it_does_in_sb3(change, n_steps_before):
    agents = []
    for algorithm in (PPOExt, PPO):
        agent = make(algorithm, "CartPole-v1", **PPO_SETTINGS)
        if n_steps_before:
            agent.learn(n_steps_before)
        th.manual_seed(1)
        change(agent)
        agent.set_random_seed(2)
        agents.append(agent.learn(128, reset_num_timesteps=False))
    ours, stock = agents
    expected = stock.policy.state_dict()
    for name, value in ours.policy.state_dict().items():
        assert th.allclose(value, expected[name], rtol=1e-4, atol=1e-5), name


def test_a_trained_agent_can_be_pickled():
    model = make(PPOExt, "CartPole-v1", **PPO_SETTINGS).learn(128)
    model.env = model._logger = None
    copy = pickle.loads(pickle.dumps(model))
    assert all(th.equal(a, b) for a, b in zip(copy.policy.parameters(), model.policy.parameters(), strict=True))
    assert copy.fast_policy is not None and copy.fast_policy is not model.fast_policy
