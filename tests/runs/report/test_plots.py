"""Plots show the numbers of the files, and say what they are."""

import json

import numpy as np
import pytest

from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.plots import _losses, _policy, _score, write_plots

STEPS = [100, 200, 300]


@pytest.fixture
def make_run(tmp_path):
    def make(facts=None, **metrics):
        rows = [{"time/total_timesteps": step} for step in STEPS]
        for name, values in metrics.items():
            for row, value in zip(rows, values, strict=True):
                row[name.replace("__", "/")] = value
        (tmp_path / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (tmp_path / "run.json").write_text(json.dumps({"algorithm": "PPOExt", "threshold": 7.0, **(facts or {})}))
        return read_record(tmp_path)

    return make


def curves(axes):
    return {line.get_label(): line.get_ydata().tolist() for line in axes.lines if len(line.get_xdata()) == len(STEPS)}


def test_the_score_is_drawn_with_evaluations_and_the_threshold(make_run, tmp_path):
    np.savez(tmp_path / "evaluations.npz", timesteps=STEPS, results=[[1, 3], [4, 4], [5, 9]], ep_lengths=[[1, 1]] * 3)
    (axes,) = _score(make_run(rollout__ep_rew_mean=[1.0, 2.0, 3.0])).axes
    assert curves(axes) == {
        "training (with exploration, mean of up to 100 episodes)": [1.0, 2.0, 3.0],
        "evaluation (2 episodes, ± std)": [2.0, 4.0, 7.0],
    }
    assert axes.lines[-1].get_label() == "threshold 7" and set(axes.lines[-1].get_ydata()) == {7.0}
    assert (axes.get_title(), axes.get_xlabel()) == (f"PPOExt, {tmp_path.name}", "steps")
    assert axes.get_ylabel() == "score (raw reward of an episode)"


def test_the_x_axis_may_be_vec_steps(make_run, tmp_path):
    np.savez(tmp_path / "evaluations.npz", timesteps=STEPS, results=[[1], [4], [5]], ep_lengths=[[1]] * 3)
    run = make_run({"axis": "vec_steps", "n_envs": 4}, rollout__ep_rew_mean=[1.0, 2.0, 3.0])
    (axes,) = _score(run).axes
    assert axes.get_xlabel() == "vec steps"
    for line in axes.lines[:2]:
        assert line.get_xdata().tolist() == [step // 4 for step in STEPS]


def test_losses_that_are_scaled_share_a_plot(make_run, tmp_path):
    losses = {"train__scaled_policy_loss": [-1.0, 0.0, 1.0], "train__scaled_value_loss": [100.0, float("inf"), 50.0]}
    (axes,) = _losses(make_run(**losses, train__value_loss=[1.0, 2.0, 3.0])).axes
    drawn = curves(axes)
    np.testing.assert_equal(
        drawn, {"train/scaled_policy_loss": [-1.0, 0.0, 1.0], "train/scaled_value_loss": [100.0, np.nan, 50.0]}
    )
    assert axes.get_yscale() == "symlog"
    assert axes.get_title() == f"PPOExt, {tmp_path.name}: losses times their coefficients"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps", "part of the loss")


@pytest.mark.parametrize(
    ("draw", "name", "what"),
    [(_losses, "train/value_loss", "losses, not scaled"), (_policy, "train/approx_kl", "policy and updates")],
)
def test_other_metrics_have_a_panel_each(make_run, draw, name, what):
    figure = draw(make_run(**{name.replace("/", "__"): [1.0, 2.0, 3.0]}))
    (axes,) = figure.axes
    assert what in figure.get_suptitle() and axes.get_title() == name
    assert axes.lines[0].get_ydata().tolist() == [1.0, 2.0, 3.0]


def test_a_plot_with_nothing_to_show_is_left_out_and_an_old_one_removed(make_run, tmp_path):
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "losses.png").touch()
    assert [path.name for path in write_plots(make_run(rollout__ep_rew_mean=[1.0, 2.0, 3.0]))] == ["score.png"]
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["score.png"]
