"""Log files are cut back to a step, and the resumed training appends to them."""

import json

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import load_results

from sb3_ext.callbacks import Checkpoints, LogFiles
from sb3_ext.runs.resume import resume_model
from sb3_ext.runs.rewind import continue_monitor_time, log_positions, monitor_kwargs, rewind_logs
from sb3_ext.runs.rows import AppendedCSV
from sb3_ext.vec_env.choose import EnvConfig, choose_native

STEP = "time/total_timesteps"


def rewind(folder, step=100):
    rewind_logs(folder, {"step": step, "sizes": {}})


@pytest.mark.parametrize(
    ("lines", "n_kept"),
    [
        (["a,time/total_timesteps", "1,50", "2,100", "3,150", "4,200"], 3),
        (["a,time/total_timesteps", "1,50", "2,", "3,150", "4,"], 3),  # rows without a step belong to the one before
        (["a,time/total_timesteps", "1,500", "2,50", "3,150"], 3),  # an earlier training is in the same file
        (["a,time/total_timesteps", '"x,y",50', '"x,300",150'], 2),
        (["a,time/total_timesteps", "1,150"], 1),
        (["a", "1", "2"], 3),
        (["a,time/total_timesteps", "1,100.0", "1,1e2", "1,nan"], 4),
    ],
)
def test_rows_after_the_step_are_cut(tmp_path, lines, n_kept):
    path = tmp_path / "progress.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    rewind(tmp_path)
    assert path.read_text().splitlines() == lines[:n_kept]


def test_half_a_row_is_cut(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a,time/total_timesteps\n1,50\n2,1")
    rewind(tmp_path)
    assert path.read_text() == "a,time/total_timesteps\n1,50\n"


def test_columns_that_came_later_stay_and_rows_are_appended(tmp_path):
    path = tmp_path / "progress.csv"
    for row in ({STEP: 50}, {STEP: 150, "late": 1}):
        log = AppendedCSV(str(path))
        log.write(row, dict.fromkeys(row, ()))
        log.close()
    rewind(tmp_path)
    log = AppendedCSV(str(path))
    log.write({STEP: 120}, {STEP: ()})
    log.close()
    assert path.read_text().splitlines() == [f"{STEP},late", "50,", "120,"]


def test_json_rows_after_the_step_are_cut(tmp_path):
    path = tmp_path / "progress.json"
    rows = [{STEP: 50}, {"a": 1}, [1], {STEP: 150}, {"a": 2}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + '{"time/tot')
    rewind(tmp_path)
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows[:3]


def test_evaluations_after_the_step_are_cut(tmp_path):
    path = tmp_path / "evaluations.npz"
    np.savez(path, timesteps=[50, 100, 150], results=[[1.0], [2.0], [3.0]], ep_lengths=[[1], [2], [3]])
    rewind(tmp_path)
    with np.load(path) as kept:
        assert kept["timesteps"].tolist() == [50, 100]
        assert kept["results"].tolist() == [[1.0], [2.0]]


def test_evaluations_that_all_came_later_leave_no_file(tmp_path):
    np.savez(tmp_path / "evaluations.npz", timesteps=[150], results=[[1.0]])
    rewind(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"PK half a zip"])
def test_evaluations_that_were_half_written_do_no_harm(tmp_path, content):
    (tmp_path / "evaluations.npz").write_bytes(content)
    rewind(tmp_path)


def play(env, n_steps):
    env.seed(0)
    env.reset()
    for _ in range(n_steps):
        env.step(np.ones(env.num_envs, dtype=np.int64))
    return env


def stock(folder, **kwargs):
    return make_vec_env("CartPole-v1", 2, monitor_dir=str(folder), monitor_kwargs=kwargs)


def native(folder, **kwargs):
    choice = choose_native(EnvConfig("CartPole-v1", {}, None, None, None, None, kwargs), str(folder))
    return choice.make([None, None])


@pytest.mark.parametrize("make_env", [stock, native])
def test_monitors_append_after_the_episodes_of_the_step(tmp_path, make_env):
    env = play(make_env(tmp_path), 50)
    positions, before = log_positions(tmp_path, 100), load_results(str(tmp_path))
    play(env, 50).close()
    rewind_logs(tmp_path, positions)
    assert load_results(str(tmp_path))["l"].tolist() == before["l"].tolist()
    play(make_env(tmp_path, **monitor_kwargs(tmp_path, 2)), 50).close()
    assert len(load_results(str(tmp_path))) == 2 * len(before)


def test_atari_games_append_to_monitor_files(tmp_path):
    config = EnvConfig("Pong-v5", {}, "stable_baselines3.common.atari_wrappers.AtariWrapper", 4, None, None, {})
    choose_native(config, str(tmp_path)).make([None]).close()
    text = (tmp_path / "0.monitor.csv").read_text()
    config = config._replace(monitor_kwargs=monitor_kwargs(tmp_path, 1))
    choose_native(config, str(tmp_path)).make([None]).close()
    assert (tmp_path / "0.monitor.csv").read_text() == text


def test_the_time_of_new_environments_goes_on(tmp_path):
    env = make_vec_env("CartPole-v1", 2, wrapper_class=TimeLimit, wrapper_kwargs={"max_episode_steps": 500})
    continue_monitor_time(env, 1000.0)
    env.reset()
    infos = [info for _ in range(20) for info in env.step(np.ones(2, dtype=np.int64))[3]]
    assert {round(info["episode"]["t"], -2) for info in infos if "episode" in info} == {1000}
    continue_monitor_time(native(tmp_path), 1000.0)  # has no such wrapper


def test_a_model_that_is_resumed_in_python_continues_the_log_files(tmp_path):
    def train(model, **kwargs):
        callbacks = [LogFiles(tmp_path), Checkpoints(tmp_path, table=False, video=False)]
        model.learn(32, callback=callbacks, **kwargs)

    def make_env():
        return make_vec_env("CartPole-v1", 1, seed=0)

    train(PPO("MlpPolicy", make_env(), n_steps=16, batch_size=16, n_epochs=1, device="cpu"))
    with (tmp_path / "progress.json").open("a") as file:
        file.write(json.dumps({STEP: 48}) + "\n")
    train(resume_model(PPO, tmp_path, make_env()), reset_num_timesteps=False)
    rows = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert [row[STEP] for row in rows if "time/iterations" in row] == [16, 32, 48, 64]
    assert [row["time/iterations"] for row in rows if "time/iterations" in row] == [1, 2, 3, 4]
    assert len([row for row in rows if row.get(STEP) == 48]) == 1


def test_files_without_a_header_are_not_appended_to(tmp_path):
    stock(tmp_path).close()
    assert monitor_kwargs(tmp_path, 2) == {"override_existing": False}
    assert monitor_kwargs(tmp_path, 3) == {}
