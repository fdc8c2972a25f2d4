"""What all our algorithms have in common: few classes, written-out constructors, and files that SB3 can load."""

import inspect

import pytest
import torch as th
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt

STOCK = {PPOExt: PPO, RecurrentPPOExt: RecurrentPPO, MaskablePPOExt: MaskablePPO, A2CExt: A2C}
OURS = [*STOCK, REINFORCE]


@pytest.mark.parametrize("algorithm", OURS)
def test_an_algorithm_has_at_most_three_classes_of_our_own(algorithm):
    own = [cls.__name__ for cls in algorithm.__mro__ if cls.__module__.startswith("sb3_ext.")]
    assert len(own) <= 3, own


@pytest.mark.parametrize("algorithm", STOCK)
def test_the_parameters_of_the_stock_class_come_first_in_its_order_and_with_its_defaults(algorithm):
    ours = inspect.signature(algorithm).parameters
    stock = inspect.signature(STOCK[algorithm]).parameters
    assert list(ours)[: len(stock)] == list(stock)
    assert {name: ours[name].default for name in stock} == {name: stock[name].default for name in stock}
    assert all(ours[name].kind is stock[name].kind for name in stock)
    extras = [parameter for name, parameter in ours.items() if name not in stock]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in extras)


@pytest.mark.parametrize("algorithm", OURS)
def test_the_constructor_names_every_parameter_in_its_source(algorithm):
    source = inspect.getfullargspec(inspect.unwrap(algorithm.__init__))
    assert source.varargs is None and source.varkw is None
    assert [*source.args, *source.kwonlyargs] == ["self", *inspect.signature(algorithm).parameters]


@pytest.mark.parametrize("algorithm", STOCK)
def test_every_parameter_reaches_the_attribute_of_its_name(algorithm):
    """Those that SB3 keeps as given."""
    numbers = {"n_steps": 24, "gamma": 0.5, "gae_lambda": 0.25, "ent_coef": 0.125, "vf_coef": 0.75, "verbose": 2}
    numbers |= {"learning_rate": 0.0625, "max_grad_norm": 0.375, "seed": 7, "_stats_window_size": 11}
    if algorithm is not A2CExt:
        numbers |= {"batch_size": 12, "n_epochs": 3, "target_kl": 0.03125, "kl_stop_factor": 2.5, "value_loss": "huber"}
        numbers |= {"kl_stop_scope": "epoch", "kl_adaptive_lr": 0.02, "reset_optimizer": "lr_jump"}
        numbers |= {"kl_adaptive_lr_bounds": (0.001, 0.01), "normalize_values": True, "kl_rollback": True}
    arguments = {name.lstrip("_"): value for name, value in numbers.items()}
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPOExt else "MlpPolicy"
    model = algorithm(policy, make_vec_env("CartPole-v1", 1), device="cpu", **arguments)
    assert {name: getattr(model, name) for name in numbers} == numbers


@pytest.mark.parametrize("algorithm", STOCK)
def test_a_model_of_the_stock_class_loads_in_ours_and_back(algorithm, tmp_path):
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPOExt else "MlpPolicy"
    models = [STOCK[algorithm](policy, make_vec_env("CartPole-v1", 2), n_steps=8, gamma=0.5, device="cpu")]
    for number, cls in enumerate((algorithm, STOCK[algorithm])):
        models[-1].save(tmp_path / str(number))
        models.append(cls.load(tmp_path / str(number), env=make_vec_env("CartPole-v1", 2), device="cpu"))
    stock, ours, again = models
    assert type(again) is type(stock) and type(ours) is algorithm
    for parameters in zip(*(model.policy.state_dict().values() for model in models), strict=True):
        assert all(th.equal(parameters[0], other) for other in parameters)
    assert ours.gamma == again.gamma == 0.5


@pytest.mark.parametrize("algorithm", [A2CExt, PPOExt, REINFORCE])
def test_logs_have_the_class_s_name_unless_another_is_given(algorithm, tmp_path):
    model = algorithm("MlpPolicy", make_vec_env("CartPole-v1", 1), n_steps=8, device="cpu", tensorboard_log=tmp_path)
    model.learn(8)
    model.learn(8, None, 1, "positional")
    model.learn(8, tb_log_name="keyword")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{algorithm.__name__}_1",
        "keyword_1",
        "positional_1",
    ]
