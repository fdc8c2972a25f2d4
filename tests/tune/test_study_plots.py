"""Pictures of a study, of those too that have little to show."""

import warnings

import matplotlib as mpl
import optuna
import pytest
from fake_studies import add_trial, make_study
from PIL import Image

from sb3_ext.tune.plots import PLOTS, _parallel, draw_plots, importance_of, missing_plots


def names_in(folder):
    return {path.name for path in folder.iterdir()} - {"plotly.min.js"}


def files_of(*names):
    return {f"{name}.{kind}" for name in names for kind in ("png", "html")}


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture(scope="module")
def study():
    return make_study(30)


@pytest.fixture(scope="module")
def drawn(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    before = dict(mpl.rcParams), optuna.logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = draw_plots(study, folder)
    assert {path.name for path in written} == names_in(folder)
    assert (dict(mpl.rcParams), optuna.logging.get_verbosity()) == before, "others draw and log too"
    return folder


def test_all_plots_are_drawn(drawn):
    assert names_in(drawn) == files_of(*PLOTS)
    for name in PLOTS:
        with Image.open(drawn / f"{name}.png") as picture:
            assert picture.width > 400 and len(picture.convert("RGB").getcolors(1_000_000)) > 10


def test_the_pages_need_no_network(drawn):
    assert (drawn / "plotly.min.js").stat().st_size > 1_000_000
    for name in PLOTS:
        page = (drawn / f"{name}.html").read_text()
        assert 'src="plotly.min.js"' in page and "cdn.plot.ly" not in page
        assert len(page) < 500_000


def test_the_same_trials_give_the_same_files(drawn, study, tmp_path):
    draw_plots(study, tmp_path)
    for name in files_of(*PLOTS):
        assert (tmp_path / name).read_bytes() == (drawn / name).read_bytes()


def test_pruned_trials_count_for_importance(study):
    shares = importance_of(study)
    assert sum(shares.values()) == pytest.approx(1)
    assert next(iter(shares)) == "learning_rate", "it is what most trials were pruned for"
    assert "target_kl" in shares, "a conditional parameter"


@pytest.mark.parametrize("n_trials", [1, 4])
def test_a_few_trials_have_no_importance(tmp_path, n_trials):
    study = make_study(n_trials, pruned=False)
    draw_plots(study, tmp_path)
    assert names_in(tmp_path) == files_of("history", "parallel")
    assert missing_plots(study) == {"importance": "fewer than 5 trials are complete"}
    assert importance_of(study) == {}


def test_one_parameter_has_no_importance(tmp_path):
    study = make_study()
    for value in (0.1, 0.01, 0.001, 0.001, 0.0001, 1e-5):
        add_trial(study, {"learning_rate": value}, height=1 / value)
    draw_plots(study, tmp_path)
    assert names_in(tmp_path) == files_of("history", "parallel")


@pytest.mark.parametrize("state", ["failed", "pruned", None])
def test_without_a_complete_trial_nothing_is_drawn_and_old_plots_go(tmp_path, state):
    (tmp_path / "history.png").write_text("old")
    study = make_study()
    for _ in range(6 if state else 0):
        add_trial(study, {"learning_rate": 0.1, "clip_range": 0.2}, state)
    assert draw_plots(study, tmp_path) == [] and names_in(tmp_path) == set()
    assert missing_plots(study) == dict.fromkeys(PLOTS, "no trial is complete")


def test_the_best_trials_are_told_from_many_pruned_ones():
    study = make_study()
    for index in range(30):
        is_good = index % 6 == 0
        params = {"learning_rate": 0.001 if is_good else 0.05, "n_epochs": 1 + index % 5}
        add_trial(study, params, "complete" if is_good else "pruned", 100.0 + index)
    assert importance_of(study)["learning_rate"] > 0.8


def test_equal_scores_and_an_infinite_one_can_be_drawn(tmp_path):
    study = make_study()
    for index in range(6):
        add_trial(study, {"n_epochs": 5, "gamma": 0.9 + 0.01 * index, "lr_schedule": None}, height=100.0)
    add_trial(study, {"n_epochs": 5, "gamma": 0.95, "lr_schedule": "linear"}, height=float("-inf"))
    assert len(draw_plots(study, tmp_path)) == 4
    assert missing_plots(study) == {"importance": "all scores are equal"}


def test_a_parameter_that_only_pruned_trials_have_gets_no_axis(tmp_path):
    study = make_study()
    for index in range(6):
        add_trial(study, {"gamma": 0.9 + 0.01 * index, "n_epochs": index + 1}, height=100.0 + index)
        add_trial(study, {"gamma": 0.9 + 0.01 * index, "target_kl": 0.01}, "pruned")
    assert len(draw_plots(study, tmp_path)) == 6


def test_a_plot_that_can_not_be_written_is_a_warning(tmp_path):
    (tmp_path / "history.png").mkdir()
    with pytest.warns(UserWarning, match="The plot of history could not be drawn"):
        written = draw_plots(make_study(1), tmp_path)
    assert {path.name for path in written} == files_of("parallel")


def test_parameters_are_shown_as_the_section_has_them():
    study = make_study()
    for index in range(4):
        add_trial(study, {"index(n_epochs)": index, "log2(n_steps)": 4 + index, "1 - gamma": 0.001 * 10**index / 10})
    (axes,) = _parallel(study).axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert sorted(labels) == ["gamma", "n_epochs", "n_steps", "score"]
    texts = {text.get_text() for text in axes.texts}
    assert {"1", "5", "10", "20", "16", "32", "64", "128", "0.9", "0.9999"} <= texts


def test_a_value_besides_the_numbers_is_drawn_as_itself():
    study = make_study()
    for params in ({"1 - gamma": 0.01}, {"1 - gamma": 0.1}, {}):
        add_trial(study, {"gamma form": "constant" if params else 1.0, **params})
        add_trial(study, {"target_kl form": "constant", "target_kl": 0.01} if params else {"target_kl form": None})
    (axes,) = _parallel(study).axes
    at = {label.get_text(): x for x, label in enumerate(axes.get_xticklabels())}
    ticks = {(text.xy[0], text.get_text()): text.xy[1] for text in axes.texts}
    assert ticks[at["gamma"], "not used"] < ticks[at["gamma"], "0.9"] < ticks[at["gamma"], "1"] == 1
    assert ticks[at["target_kl"], "not used"] < ticks[at["target_kl"], "none"] < ticks[at["target_kl"], "0.01"]
    assert any(line.get_ydata()[at["gamma"]] == 1 for line in axes.lines if len(line.get_ydata()) == len(at))
