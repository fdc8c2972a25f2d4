"""The live table, the plain lines and the files: all show the same numbers, and leave the terminal as it was."""

import csv
import io
import json
import re
import sys

import pytest
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ProgressBarCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import HumanOutputFormat, Logger, TensorBoardOutputFormat
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sb3_ext.callbacks.alerts import Alerts
from sb3_ext.callbacks.metrics import Metrics
from sb3_ext.callbacks.table.callback import LiveTable, Table, TableOptions
from sb3_ext.callbacks.table.format import format_value
from sb3_ext.callbacks.table.log_files import LogFiles
from sb3_ext.callbacks.table.plain import PlainLines
from sb3_ext.common.options import read_switch
from sb3_ext.metrics.catalogue import describe
from sb3_ext.runs.rows import RowStream

SHOWN_AT = {"kl_high": "train/approx_kl", "slow": None}
HIDDEN_CURSOR, SHOWN_CURSOR = "\x1b[?25l", "\x1b[?25h"
pytestmark = pytest.mark.filterwarnings("ignore:rich is experimental")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Judging(BaseCallback):
    """From the second row on, two rules fire, as the alerts' callback records it; and something is printed."""

    def _on_training_start(self):
        self._rows = 0
        RowStream.of(self.logger).add_observer(self._judge)

    def _judge(self, step, values):
        self._rows += 1
        print(f"row {self._rows} comes")
        return {"alert/kl_high": 1, "alert/slow": 1, "alert/old": 0, "alert/total": 2} if self._rows > 1 else {}

    def _on_step(self):
        return True


class Interrupting(BaseCallback):
    def _on_step(self):
        if self.num_timesteps > 40:
            raise KeyboardInterrupt
        return True


@pytest.fixture(autouse=True)
def large_terminal(monkeypatch):
    """And one that is drawn at each step."""
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("LINES", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sb3_ext.callbacks.table.callback._REST", 0.0)


def model_for(output, algorithm=PPO, verbose=1, **kwargs):
    kwargs = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, **kwargs} if algorithm is PPO else kwargs
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"]), 2, seed=0)
    model = algorithm("MlpPolicy", env, verbose=verbose, device="cpu", policy_kwargs={"net_arch": [8]}, **kwargs)
    if output is not None:
        model.set_logger(Logger(None, [HumanOutputFormat(output)]))
    return model


def train(output, *callbacks, steps=96, **kwargs):
    model = model_for(output, **kwargs)
    return model.learn(steps, callback=CallbackList(list(callbacks)), log_interval=1)


def plain(text):
    """Without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")


def last_frame(text):
    """What stays on the screen: each frame begins with erasing the lines of the one before."""
    return text.rsplit("\x1b[2K", 1)[-1]


def tables(text):
    """Printed tables as {name: value}; each starts with its step."""
    found, group = [], ""
    for line in plain(text).splitlines():
        if re.fullmatch(r"[\d,]+ steps", line.strip()):
            found.append({})
        elif line.startswith(" "):
            name, value = line.split()[:2]
            found[-1][f"{group}/{name}"] = value
        elif line:
            group = line.split()[0]
    return found


def test_table_csv_json_and_tensorboard_have_the_same_numbers(tmp_path):
    output = Terminal()
    model = model_for(output)
    model.logger.output_formats.append(TensorBoardOutputFormat(str(tmp_path)))
    # With someone else's progress bar, whole tables are printed, one for each row
    files, table = LogFiles(str(tmp_path)), Table(every_seconds=0, metric_of_alert=SHOWN_AT.get)
    model.learn(96, callback=CallbackList([ProgressBarCallback(), Judging(), files, table]))
    files.close()

    printed = tables(output.getvalue())
    with open(tmp_path / "progress.csv") as file:
        csv_rows = list(csv.DictReader(file))
    json_rows = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    events = EventAccumulator(str(tmp_path)).Reload()
    on_board = set(events.Tags()["scalars"])
    assert len(printed) == len(csv_rows) == len(json_rows) == 3
    for shown, csv_row, json_row in zip(printed, csv_rows, json_rows, strict=True):
        assert {name for name, value in csv_row.items() if value} == set(json_row)
        for name, number in json_row.items():
            assert float(csv_row[name]) == pytest.approx(number, rel=1e-6)
            if name == "alert/total" or not name.startswith("alert/"):
                assert shown[name] == format_value(describe(name), number)
            if name in on_board:
                at_step = [
                    event.value for event in events.Scalars(name) if event.step == json_row["time/total_timesteps"]
                ]
                assert at_step == [pytest.approx(number, rel=1e-6)]
    # What SB3 itself keeps from TensorBoard, and nothing else
    assert {name for row in json_rows for name in row} - on_board == {
        *("time/iterations", "time/time_elapsed", "time/total_timesteps", "train/n_updates"),
    }


def test_a_line_with_an_alert_is_highlighted_and_names_it():
    output = Terminal()
    train(output, Judging(), Table(every_seconds=0, metric_of_alert=SHOWN_AT.get))
    frame = last_frame(output.getvalue())
    (line,) = [line for line in frame.splitlines() if "approx_kl" in line]
    assert "\x1b[1;31m" in line and "⚠ kl_high" in line
    assert "⚠ slow" in plain(frame).splitlines()
    (caption,) = (line for line in frame.splitlines() if "⚠ slow" in line)
    assert "\x1b[1;31m" in caption
    assert "old" not in frame


def test_elapsed_time_is_blue_and_groups_are_in_their_order():
    output = Terminal()
    train(output, Table(every_seconds=0))
    frame = last_frame(output.getvalue())
    (line,) = [line for line in frame.splitlines() if "time_elapsed" in line]
    assert "\x1b[34m" in line and re.search(r"\d:\d\d:\d\d", line)
    titles = [line.split()[0] for line in plain(frame).splitlines() if "──" in line]
    assert titles == ["rollout", "train", "time"]


def test_changes_have_arrows_and_curves_have_sparklines():
    output = Terminal()
    train(output, Table(every_seconds=0))
    (line,) = [line for line in plain(last_frame(output.getvalue())).splitlines() if "total_timesteps" in line]
    assert "96 ▲ steps" in line and line.endswith("▁▅█")


def test_the_progress_bar_has_steps_episodes_speed_and_time_left():
    output = Terminal()
    train(output, Table(every_seconds=0))
    last_line = plain(output.getvalue()).strip().splitlines()[-1]
    assert re.search(r"100% 96 of 96 steps, 12 episodes, [\d,]+ steps/s, 0:00:00 left", last_line)


def test_other_prints_survive_and_the_terminal_is_left_as_it_was():
    output, stdout = Terminal(), sys.stdout
    model = train(output, Judging(), Table(every_seconds=0))
    assert re.findall(r"row \d comes", output.getvalue()) == ["row 1 comes", "row 2 comes", "row 3 comes"]
    assert sys.stdout is stdout
    assert output.getvalue().rfind(SHOWN_CURSOR) > output.getvalue().rfind(HIDDEN_CURSOR) >= 0
    assert any(isinstance(output_format, HumanOutputFormat) for output_format in model.logger.output_formats)
    assert not any(isinstance(output_format, LiveTable) for output_format in model.logger.output_formats)


def test_an_interrupted_training_leaves_the_terminal_as_it_was():
    output, stdout = Terminal(), sys.stdout
    table = Table()
    with pytest.raises(KeyboardInterrupt) as interrupt:
        train(output, table, Interrupting())
    assert sys.stdout is not stdout
    table.close(interrupt.value)
    written = output.getvalue()
    assert sys.stdout is stdout and written.rfind(SHOWN_CURSOR) > written.rfind(HIDDEN_CURSOR)
    assert "ep_rew_mean" in last_frame(written)
    table.close()
    assert output.getvalue() == written


@pytest.mark.parametrize(("columns", "lines"), [(40, 8), (24, 5), (200, 10), (10, 2)])
def test_a_small_terminal_gets_what_is_most_important(monkeypatch, columns, lines):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    output = Terminal()
    train(output, Judging(), Table(every_seconds=0, metric_of_alert=SHOWN_AT.get))
    frame = plain(last_frame(output.getvalue())).strip("\n").splitlines()
    assert len(frame) < max(lines, 2) and max(map(len, frame)) <= columns
    assert "clip_range_vf" not in "".join(frame)
    if lines > 5:
        assert any("ep_rew_mean" in line for line in frame)
        assert any("kl_high" in line for line in frame)


def test_with_another_progress_bar_there_is_no_second_one():
    output = Terminal()
    train(output, ProgressBarCallback(), Table())
    assert "ep_rew_mean" in output.getvalue()
    assert "of 96 steps" not in output.getvalue()


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_where_there_is_no_terminal_each_row_is_a_plain_line(algorithm):
    output = io.StringIO()
    model = train(output, Judging(), Table(every_seconds=0, metric_of_alert=SHOWN_AT.get), algorithm=algorithm)
    lines = output.getvalue().splitlines()
    assert "\x1b" not in output.getvalue()
    assert len(lines) == RowStream.of(model.logger).curves["rollout/ep_rew_mean"].n_values
    latest = RowStream.of(model.logger).latest
    assert lines[-1].startswith(f"{latest.step:,} steps ({latest.step / 96:.0%}) | ep_rew_mean ")
    assert f"ep_len_mean {latest.values['rollout/ep_len_mean']:.1f} | " in lines[-1]
    assert lines[-1].endswith("ALERT kl_high (train/approx_kl), slow") and "ALERT" not in lines[0]


@pytest.mark.parametrize(("judges", "n_lines"), [([], 2), ([Judging()], 3)])
def test_plain_lines_can_be_rarer_but_alerts_and_the_last_row_come(judges, n_lines):
    output = io.StringIO()
    train(output, *judges, Table(every_seconds=1000))
    lines = output.getvalue().splitlines()
    assert len(lines) == n_lines and lines[-1].startswith("96 steps")


def test_the_last_line_has_the_scores_although_its_row_does_not():
    output = io.StringIO()
    lines = PlainLines(output, every_seconds=1000)
    lines.write(64, 96, {"rollout/ep_rew_mean": 20.0})
    lines.write(96, 96, {"rollout/ep_rew_mean": 30.0, "eval/mean_reward": 450.0})
    lines.write(96, 96, {"train/approx_kl": 0.01})
    lines.flush()
    first, last = output.getvalue().splitlines()
    assert first == "64 steps (67%) | ep_rew_mean 20.00"
    assert last == "96 steps (100%) | ep_rew_mean 30.00 | eval/mean_reward 450.0 | approx_kl 0.0100"


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("alerts_first", [True, False])
def test_the_summary_of_alerts_comes_below_the_table_whatever_comes_first(monkeypatch, live, alerts_first):
    output = Terminal() if live else io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    callbacks = [Alerts(), Table()] if alerts_first else [Table(), Alerts()]
    train(output, Metrics(), *callbacks)
    written = plain(output.getvalue())
    assert written.rindex("No alerts.") > written.rindex("96 ")
    assert "-----" not in written, "SB3's table is shown"


def test_an_alert_that_lasts_is_told_at_the_pace_of_the_lines():
    output = io.StringIO()
    train(output, Judging(), Table(every_seconds=1000, metric_of_alert=SHOWN_AT.get), steps=32 * 20)
    assert len(output.getvalue().splitlines()) == 3  # the first, the first with an alert, the last


def test_without_verbose_nothing_is_shown(capsys):
    train(None, Table(live=True), verbose=0)
    assert capsys.readouterr().out == ""


def test_it_takes_the_place_of_sb3s_table_on_stdout(capsys):
    train(None, Table(every_seconds=0))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("|")] == []
    assert [line.split(" ")[0] for line in lines if " steps (" in line] == ["32", "64", "96"]


def test_a_training_can_go_on_with_the_same_table():
    output, table = io.StringIO(), Table(every_seconds=0)
    model = train(output, table)
    model.learn(32, callback=table, reset_num_timesteps=False)
    assert [line.split(" | ")[0] for line in output.getvalue().splitlines()] == [
        *("32 steps (33%)", "64 steps (67%)", "96 steps (100%)", "128 steps (100%)"),
    ]


@pytest.mark.parametrize(
    ("written", "config"),
    [
        (True, TableOptions()),
        (None, None),
        (False, None),
        ({"every_seconds": "1e1", "live": False}, TableOptions(live=False, every_seconds=10.0)),
    ],
)
def test_the_table_is_read_from_a_config(written, config):
    assert read_switch(TableOptions, written, "table") == config


@pytest.mark.parametrize(
    ("written", "error", "text"),
    [
        ({"every_second": 1}, TypeError, "did you mean 'every_seconds'"),
        ({"every_seconds": -1}, ValueError, "at least 0"),
        ({"live": 1}, ValueError, "must be 'auto', true or false"),
        ({"live": "always"}, ValueError, "must be 'auto', true or false"),
        ("yes", ValueError, "must be true, false or a mapping"),
    ],
)
def test_a_mistake_in_the_config_is_an_error(written, error, text):
    with pytest.raises(error, match=text):
        read_switch(TableOptions, written, "table")
