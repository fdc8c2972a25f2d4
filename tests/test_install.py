"""What an install brings, what it costs at start-up, and that it leaves nothing behind."""

import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch as th
from conftest import PROJECT
from wheel_env import WheelEnv

TRAIN_PPO = "-m rl_zoo3.train --algo ppo --env CartPole-v1 -n 1024 --seed 5 --eval-freq -1 --num-threads 1".split()


def loaded_modules(env, cwd, code, **environment):
    names = env.run("-c", f"{code}; import sys, json; print(json.dumps(list(sys.modules)))", cwd=cwd, **environment)
    return set(json.loads(names.stdout))


def test_all_folders_are_in_the_one_package(wheel_env, tmp_path):
    code = """
import sb3_ext.wrappers, sb3_ext.callbacks
from sb3_ext.metrics.catalogue import catalogue
from sb3_ext.hyperparams import hyperparams_file
assert catalogue().metrics
assert hyperparams_file("ppo_ext").is_file() and hyperparams_file("reinforce").is_file()
"""
    wheel_env.run("-c", code, cwd=tmp_path)
    assert sorted(path.name for path in wheel_env.site_packages.glob("*") if "sb3" in path.name) == [
        "sb3_ext",
        "sb3_ext-0.1.0.dist-info",
        "sb3_ext_autoload.pth",
    ]
    assert not {"wrappers", "callbacks", "hyperparams", "tests", "scripts"} & {
        path.name for path in wheel_env.site_packages.glob("*")
    }
    assert (wheel_env.site_packages / "sb3_ext" / "py.typed").is_file()


def test_the_source_distribution_has_all_of_the_package_and_no_tests(wheel):
    """The wheel is built from it."""
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as source, zipfile.ZipFile(wheel) as built:
        names = {name.partition("/")[2] for name in source.getnames()}
        packed = {name for name in built.namelist() if name.startswith("sb3_ext/")}
    assert {"setup.py", "constraints.txt", "sb3_ext_autoload.pth", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]
    files = [Path(folder, name) for folder, _, some in os.walk(PROJECT / "sb3_ext", followlinks=True) for name in some]
    sources = {".c", ".h"}  # of the kernel, which is built from them
    assert packed == {file.relative_to(PROJECT).as_posix() for file in files if file.suffix not in {".pyc", *sources}}
    assert {file.relative_to(PROJECT).as_posix() for file in files if file.suffix in sources} <= names


def test_starting_python_loads_nothing_but_the_hook(wheel_env, tmp_path):
    without = loaded_modules(wheel_env, tmp_path, "pass", SB3_EXT_AUTOLOAD="0")
    with_hook = loaded_modules(wheel_env, tmp_path, "pass")
    assert with_hook - without == {"sb3_ext", "sb3_ext._autoload"}


def test_importing_the_package_loads_neither_torch_nor_gymnasium(wheel_env, tmp_path):
    modules = loaded_modules(wheel_env, tmp_path, "import sb3_ext; sb3_ext.__version__")
    assert not {"torch", "gymnasium", "numpy", "stable_baselines3"} & modules


def test_an_error_in_the_hook_becomes_a_line(wheel_env, tmp_path):
    (tmp_path / "sb3_ext.py").write_text("raise RuntimeError('broken')")
    result = wheel_env.run("-c", "print('alive')", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert result.stdout.strip() == "alive"
    assert "sb3-ext is not loaded into RL Zoo: RuntimeError('broken')" in result.stderr


@pytest.mark.parametrize(("switch", "known"), [({}, True), ({"SB3_EXT_AUTOLOAD": "0"}, False)])
def test_autoload_can_be_switched_off(wheel_env, tmp_path, switch, known):
    code = "import rl_zoo3; print('ppo_ext' in rl_zoo3.ALGOS)"
    assert wheel_env.run("-c", code, cwd=tmp_path, **switch).stdout.strip() == str(known)


def test_register_does_by_hand_what_the_hook_does(wheel_env, tmp_path):
    code = """
import rl_zoo3.train, rl_zoo3.exp_manager, rl_zoo3.hyperparams_opt, gymnasium
assert "ppo_ext" not in rl_zoo3.ALGOS
import sb3_ext
for _ in range(2):
    sb3_ext.register()
assert {"ppo_ext", "reinforce"} <= set(rl_zoo3.ALGOS)
assert {"ppo_ext", "reinforce"} <= set(rl_zoo3.hyperparams_opt.HYPERPARAMS_SAMPLER)
assert rl_zoo3.train.ExperimentManager.__module__ == "sb3_ext.zoo.experiment"
assert rl_zoo3.exp_manager.ExperimentManager.__module__ == "sb3_ext.zoo.experiment"
gymnasium.spec("Pong-v5")
from huggingface_sb3.push_to_hub import generate_metadata
"""
    wheel_env.run("-c", code, cwd=tmp_path, SB3_EXT_AUTOLOAD="0")


def test_stock_ppo_is_bit_identical_and_uninstalling_leaves_nothing(wheel, tmp_path):
    bare = WheelEnv(tmp_path / "venv")
    before = sorted(bare.site_packages.rglob("*"))
    (tmp_path / "without").mkdir()
    bare.run(*TRAIN_PPO, cwd=tmp_path / "without")
    bare.install(wheel)
    (tmp_path / "with").mkdir()
    bare.run(*TRAIN_PPO, cwd=tmp_path / "with")
    bare.uninstall()
    assert sorted(bare.site_packages.rglob("*")) == before

    from stable_baselines3 import PPO

    models = [PPO.load(tmp_path / run / "logs/ppo/CartPole-v1_1/CartPole-v1.zip") for run in ("without", "with")]
    one, other = (model.policy.state_dict() for model in models)
    assert one.keys() == other.keys()
    assert all(th.equal(one[name], other[name]) for name in one)
