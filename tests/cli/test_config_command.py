"""``sb3-ext config``: check, format, show and schema."""

import json

import optuna
import pytest

from sb3_ext.cli import main
from sb3_ext.zoo.config.editor_schema import editor_schema
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.options import ExtOptions

RIGHT = "CartPole-v1:\n  n_timesteps: 100\n  policy: MlpPolicy\n"
WRONG = RIGHT + "  gama: 1\n  n_steps: 0\n  n_envs: 2\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right.yml").write_text(RIGHT)
    (tmp_path / "wrong.yml").write_text(WRONG)
    return tmp_path


def test_all_mistakes_of_a_file_are_printed_with_their_lines(capsys):
    assert main(["config", "check", "wrong.yml", "--algo", "ppo_ext"]) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("wrong.yml:4: ") and "'gamma'" in first
    assert second.startswith("wrong.yml:5: ") and "n_steps=0" in second


@pytest.mark.parametrize(
    ("unchecked", "text", "where", "said"),
    [
        ("nosuch.yml", None, "nosuch.yml", "No such file"),
        ("open.yml", "CartPole-v1: {n_envs: 2\n", "open.yml:2", "not valid YAML"),
        ("latin.yml", b"a: 1\n# \xe9", "latin.yml:2", "UTF-8"),
        ("empty.yml", "", "empty.yml", "is empty"),
        ("other.yml", "Acrobot-v1: {}\n", "other.yml", "no section 'CartPole-v1'"),
    ],
)
def test_the_mistakes_of_the_other_files_are_listed_with_a_file_that_can_not_be_checked(
    unchecked, text, where, said, folder, capsys
):
    if text is not None:
        (folder / unchecked).write_bytes(text if isinstance(text, bytes) else text.encode())
    files = [unchecked, "wrong.yml", "--algo", "ppo_ext", "--env", "CartPole-v1"]
    assert main(["config", "check", *files, "--json"]) == 2
    first, *others = json.loads(capsys.readouterr().out)
    assert first["where"] == where and said in first["text"]
    assert [problem["where"] for problem in others] == ["wrong.yml:4", "wrong.yml:5"]


def test_a_file_that_is_not_named_after_an_algorithm_is_listed_with_the_others(folder, capsys):
    (folder / "ppo_ext.yml").write_text(WRONG)
    assert main(["config", "check", "right.yml", "ppo_ext.yml"]) == 2
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3 and said[0].startswith("right.yml: ") and "--algo" in said[0]


def test_mistakes_are_in_the_order_of_their_lines(folder, capsys):
    (folder / "ppo_ext.yml").write_text("CartPole-v1:\n  ext: {alert: true}\n  policy: Mlp\n  gama: 1\n  gama: 1\n")
    assert main(["config", "check", "ppo_ext.yml"]) == 2
    lines = [int(line.split(":")[1]) for line in capsys.readouterr().out.splitlines()]
    assert lines == sorted(lines) and set(lines) == {1, 2, 3, 5}


def test_a_file_without_mistakes_ends_with_0(capsys):
    assert main(["config", "check", "right.yml", "--algo", "ppo_ext"]) == 0
    assert "no mistakes" in capsys.readouterr().out


def test_a_batch_size_that_does_not_divide_is_a_warning(folder, capsys):
    (folder / "ppo_ext.yml").write_text(RIGHT + "  n_steps: 10\n  batch_size: 4\n")
    assert main(["config", "check", "ppo_ext.yml", "--json"]) == 0
    (problem,) = json.loads(capsys.readouterr().out)
    assert problem["is_warning"] and problem["where"] == "ppo_ext.yml:5" and "n_steps * n_envs = 10" in problem["text"]


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["-f", "logs"], 2)])
def test_a_run_that_does_not_exist_is_a_mistake_if_the_log_folder_is_known(flags, code, folder, capsys):
    (folder / "ppo_ext.yml").write_text(RIGHT + "  ext: {init_from: nothing/here}\n")
    assert main(["config", "check", "ppo_ext.yml", *flags, "--json"]) == code
    (problem,) = json.loads(capsys.readouterr().out)
    assert problem["where"] == "ppo_ext.yml:4" and "nothing/here" in problem["text"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "right.yml", "--algo", "ppo_exd"], "'ppo_ext'"),
        (["format", "right.yml"], "--algo"),
        (["show", "CartPol-v1"], "'CartPole-v1'"),
        (["show", "CartPole-v1", "-params", "gamma=1"], "gamma:"),
    ],
)
def test_a_mistake_in_the_command_line_is_named(arguments, said, capsys):
    assert main(["config", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_format_orders_the_keys_and_check_only_reports_it(folder, capsys):
    assert main(["config", "format", "--check", "wrong.yml", "--algo", "ppo_ext"]) == 1
    assert (folder / "wrong.yml").read_text() == WRONG
    assert main(["config", "format", "wrong.yml", "--algo", "ppo_ext"]) == 0
    assert (folder / "wrong.yml").read_text().splitlines()[1] == "  n_envs: 2"
    assert main(["config", "format", "--check", "wrong.yml", "--algo", "ppo_ext"]) == 0


def test_show_names_the_source_of_each_value(capsys):
    study = optuna.create_study(study_name="s", storage="sqlite:///s.db")
    distribution = optuna.distributions.FloatDistribution(0, 1)
    names = ("one_minus_gamma", "one_minus_gae_lambda", "learning_rate", "ent_coef", "max_grad_norm", "target_kl")
    fixed = {"batch_size_pow": 5, "n_steps_pow": 5, "net_arch": "tiny", "activation_fn": "relu", "kl_control": "stop"}
    choices = {name: optuna.distributions.CategoricalDistribution([value]) for name, value in fixed.items()}
    params = {**dict.fromkeys(names, 0.5), **fixed}
    trial = {"params": params, "distributions": {**dict.fromkeys(names, distribution), **choices}, "value": 1.0}
    study.add_trial(optuna.trial.create_trial(**trial))
    of_study = ["--study-name", "s", "--storage", "sqlite:///s.db", "--trial-id", "0"]
    typed = ["-params", "ent_coef:0.1", "ext:dict(alerts=False)"]
    assert main(["config", "show", "CartPole-v1", "-conf", "right.yml", *typed, *of_study, "--json"]) == 0
    settings = {row["key"]: (row["value"], row["source"]) for row in json.loads(capsys.readouterr().out)}
    assert settings["n_timesteps"] == (100, "right.yml:2")
    assert settings["gamma"] == (0.5, "trial 0 of the study 's'")
    assert settings["ent_coef"] == (0.1, "-params")
    assert settings["vf_coef"] == (0.5, "default of PPOExt")
    assert settings["ext: alerts"] == (False, "-params")
    assert settings["ext: report"] == (True, "default of sb3-ext")


def test_the_schema_for_editors_has_every_key_with_its_limits(folder):
    from sb3_ext import PPOExt

    assert main(["config", "schema", "-o", "schema.json"]) == 0
    section = json.loads((folder / "schema.json").read_text())["$defs"]["Section"]["properties"]
    assert set(section) == {*section_parameters(PPOExt), "ext", "<<"}
    assert section["n_steps"] | {"type": "integer", "minimum": 1, "default": 2048} == section["n_steps"]
    assert {"type": "number", "minimum": 0, "maximum": 1} in section["gamma"]["anyOf"]
    assert section["value_loss"]["enum"] == ["mse", "huber"] and "outliers" in section["value_loss"]["description"]
    assert set(section["ext"]["properties"]) == set(ExtOptions.model_fields)


def test_the_schema_allows_the_short_forms_of_options():
    alerts = editor_schema("ppo_ext")["$defs"]["Section"]["properties"]["ext"]["properties"]["alerts"]
    assert any("boolean" in option.get("type", ()) for option in alerts["anyOf"])


def test_debug_shows_the_traceback_of_a_mistake(capsys, monkeypatch):
    monkeypatch.setenv("SB3_EXT_DEBUG", "1")
    assert main(["config", "show", "CartPol-v1"]) == 2
    assert "Traceback" in capsys.readouterr().err
