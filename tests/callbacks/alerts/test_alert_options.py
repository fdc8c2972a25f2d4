"""Rules that are silenced, changed and added in YAML."""

import pytest
import yaml
from stable_baselines3 import PPO

from sb3_ext.callbacks.alerts.callback import Alerts
from sb3_ext.callbacks.alerts.options import AlertsOptions
from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.common.options import read_switch


def train(alerts):
    PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=2).learn(64 * 3, callback=alerts)


def read_alerts(raw):
    return read_switch(AlertsOptions, raw, "alerts")


def written_in_yaml(text):
    return read_alerts(yaml.safe_load(text)["alerts"])


def test_rules_are_silenced_tightened_and_added_in_yaml():
    config = written_in_yaml(
        """
        alerts:
          silence: [fps_drop]
          set: {kl_high: {threshold: 5e-2, window: 5}}
          add: {my_rule: {metric: rollout/ep_len_mean, above: 400, window: 10, advice: "Shorter."}}
          on_nan: warn
        """
    )
    ids = [rule.id for rule in config.rules]
    assert ids == sorted({*RULES, "my_rule"} - {"fps_drop"})
    assert config.changes == {"kl_high": {"threshold": 0.05, "window": 5}}
    assert config.on_nan == "warn"


def test_what_is_set_holds_in_a_training():
    config = written_in_yaml("alerts: {set: {lr_zero: {threshold: 1, window: 1}}, silence: no_episode_end}")
    alerts = config.make_callback(verbose=0)
    train(alerts)
    assert "lr_zero" in [count.id for count in alerts.summary()]


@pytest.mark.parametrize(("written", "config"), [(True, AlertsOptions()), (False, None), (None, None)])
def test_alerts_are_on_or_off(written, config):
    assert read_alerts(written) == config


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"silense": []}, "'silence'"),
        ({"silence": ["fps_drob"]}, "did you mean 'fps_drop'"),
        ({"set": {"kl_hi": {}}}, "did you mean 'kl_high'"),
        ({"set": {"kl_high": {"treshold": 1}}}, "did you mean 'threshold'"),
        ({"set": {"kl_high": {"threshold": "much"}}}, "must be a number"),
        ({"set": {"kl_high": {"share": 80}}}, "must be at most 1"),
        ({"set": {"kl_high": {"window": 0}}}, "window=0 must be at least 1"),
        ({"add": {"kl_high": {"metric": "a", "above": 1}}}, "there is a rule of this name"),
        ({"add": {"mine": {"above": 1}}}, "alerts: add: mine needs metric"),
        ({"add": {"mine": {"metric": "a"}}}, "above or below"),
        ({"add": {"mine": {"metric": "a", "over": 1}}}, "has no option 'over'"),
        ({"add": {"My Rule": {"metric": "a", "above": 1}}}, "small letters"),
        ({"on_nan": "rais"}, "did you mean 'raise'"),
        (["fps_drop"], "must be true, false or a mapping"),
    ],
)
def test_what_is_mistyped_is_told(written, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read_alerts(written)


def test_a_rule_that_can_not_fire_is_told():
    alerts = Alerts(add={"mine": {"metric": "rollout/ep_len_meen", "above": 400}}, verbose=0)
    with pytest.warns(UserWarning, match="did you mean 'rollout/ep_len_mean'"):
        train(alerts)
