"""``sb3-ext plot``: what is in the picture."""

import numpy as np
import pytest
from report_folders import zoo_run

from sb3_ext.cli import main
from sb3_ext.runs.record import SCORE, read_record
from sb3_ext.runs.report.compare import compare, group_runs
from sb3_ext.runs.report.compare_plot import curve_of, draw_groups


@pytest.fixture
def runs(tmp_path):
    """Three seeds of one algorithm, the last of which ended early, and one of another."""
    folders = [tmp_path / f"run_{number}" for number in range(4)]
    for seed, folder in enumerate(folders):
        algo, steps = ("ppo_ext", 1000 if seed < 2 else 500) if seed < 3 else ("dqn", 1000)
        zoo_run(folder, np.linspace(0, 100 * seed, 10), n_timesteps=steps, algo=algo, seed=seed)
        (folder / "CartPole-v1" / "config.yml").write_text("policy: MlpPolicy")
    return folders


def drawn(folders, *options):
    (axes,) = draw_groups(group_runs([read_record(folder) for folder in folders])[0], SCORE, *options).axes
    return axes


def test_the_legend_has_algorithms_and_numbers_of_seeds_and_the_title_the_threshold(runs):
    axes = drawn(runs)
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert labels == ["ppo_ext (3 seeds)", "dqn (1 seed)"]
    assert axes.get_title() == "CartPole-v1 (dashed: threshold 475)"


def test_the_curve_is_the_interquartile_mean(runs):
    line = drawn(runs[:2]).get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(50.0)


def test_a_seed_that_ended_keeps_its_value_on_a_dotted_line(runs):
    solid, dotted, *_ = drawn(runs[:3]).get_lines()
    assert dotted.get_linestyle() == ":" and solid.get_xdata()[-1] == dotted.get_xdata()[0] == 500
    assert dotted.get_xdata()[-1] == 1000 and dotted.get_ydata()[-1] == pytest.approx((0 + 100 + 200) / 3)


def test_one_seed_has_no_interval(runs):
    assert len(drawn(runs[3:]).collections) == 0 and len(drawn(runs[:3]).collections) == 1


def test_each_environment_has_a_panel(tmp_path):
    folders = [tmp_path / "CartPole", tmp_path / "Acrobot"]
    zoo_run(folders[0])
    zoo_run(folders[1], env="Acrobot-v1")
    figure = draw_groups(group_runs([read_record(folder) for folder in folders])[0], SCORE)
    assert [axes.get_title().split()[0] for axes in figure.axes] == ["CartPole-v1", "Acrobot-v1"]


def test_vec_steps_are_steps_of_each_environment(runs):
    (runs[0] / "CartPole-v1" / "config.yml").write_text("n_envs: 4")
    assert curve_of(read_record(runs[0]), SCORE, "vec_steps").steps[-1] == 250


def test_seconds_come_from_the_clock(tmp_path):
    zoo_run(tmp_path / "run")
    (tmp_path / "run" / "progress.json").write_text(
        '{"time/total_timesteps": 10, "time/time_elapsed": 2, "rollout/ep_rew_mean": 1}\n'
        '{"time/total_timesteps": 20, "time/time_elapsed": 6, "rollout/ep_rew_mean": 1}\n'
    )
    assert curve_of(read_record(tmp_path / "run"), SCORE, "seconds").steps.tolist() == [2, 6]


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_the_picture_has_the_format_of_its_name(runs, tmp_path, name, start, capsys):
    assert main(["plot", *map(str, runs), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    assert "rollout/ep_rew_mean of 2 groups" in capsys.readouterr().out


def test_without_a_name_no_picture_is_replaced(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("plot.png", "plot_1.png", "plot_2.png"):
        main(["plot", str(runs[0])])
        assert capsys.readouterr().out.startswith(f"{name}: ")


def test_the_interval_at_the_end_is_that_of_the_comparison(tmp_path):
    rng = np.random.default_rng(0)
    folders = [zoo_run(tmp_path / f"run_{seed}", rng.normal(size=20), seed=seed) for seed in range(7)]
    groups, _ = group_runs([read_record(folder) for folder in folders])
    (axes,) = draw_groups(groups, SCORE).axes
    outline = axes.collections[0].get_paths()[0].vertices
    at_end = outline[outline[:, 0] == outline[:, 0].max(), 1]
    score = compare(groups)[0].score
    assert (at_end.min(), at_end.max()) == pytest.approx((score.low, score.high))


def test_equal_runs_give_equal_files(runs, tmp_path):
    for name in ("a.svg", "b.svg"):
        main(["plot", *map(str, runs), "-o", str(tmp_path / name)])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["-o", "a.jpg"], "a.jpg: the name must end with .png or .svg."),
        (["--metric", "train/los"], "No run has train/los. They have: rollout/ep_rew_mean"),
        (["--metric", "rollout/ep_rew_men"], "No run has rollout/ep_rew_men: did you mean 'rollout/ep_rew_mean'?"),
        (["--by", "gama"], "--by gama: no run has this setting."),
    ],
)
def test_a_mistake_is_answered_and_nothing_written(runs, options, answer, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", str(runs[0]), *options]) == 2
    assert answer in capsys.readouterr().err and not list(tmp_path.glob("*.*g"))


def test_a_group_without_the_metric_is_told(runs, tmp_path, capsys):
    (runs[3] / "progress.json").write_text('{"time/total_timesteps": 5, "train/loss": 1.0}\n')
    main(["plot", *map(str, runs), "-o", str(tmp_path / "a.svg"), "--metric", "train/loss"])
    assert "CartPole-v1, ppo_ext: no train/loss, so there is no curve." in capsys.readouterr().out
