"""Tools that look up environments, configs and runs. They run no code of a run."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from sb3_ext.common.clean_text import printable
from sb3_ext.common.names import check_choice, nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.access import Access
from sb3_ext.mcp.client_values import plain_hyperparams
from sb3_ext.mcp.helper import Helper
from sb3_ext.mcp.inside import find_inside
from sb3_ext.mcp.jobs import Request, describe_config, find_spaces_of
from sb3_ext.mcp.parameters import DEFAULT_ALGO, Algo, EnvId, Hyperparams, RunName, Steps
from sb3_ext.runs.describe import describe_run
from sb3_ext.runs.record import read_record
from sb3_ext.runs.registry import Registry
from sb3_ext.runs.report.charts import without_padding
from sb3_ext.runs.report.comparison import comparison_text
from sb3_ext.runs.report.curves import meaning, shown_curve
from sb3_ext.runs.report.report import make_report
from sb3_ext.runs.selection import select_runs
from sb3_ext.zoo.command_line import algorithms
from sb3_ext.zoo.config.files import find_section
from sb3_ext.zoo.env_catalogue import EnvEntry, import_packages, list_environments, search, tuned_for

__all__ = ["MAX_CHARS", "ReadTools"]

#: Characters of a result
MAX_CHARS = 20_000
#: Environments whose spaces are shown, for which they are made
_FEW = 10
_ENTRY = (
    *("id", "state", "algo", "env", "seed", "steps", "total_timesteps", "seconds", "score", "best_score"),
    *("threshold", "solved", "started", "stop_reason", "parent"),
)
State = Literal["running", "finished", "interrupted", "failed", "killed", "unknown"]
Order = Literal["started", "score", "steps", "seconds", "env", "algo", "state"]


class ReadTools:
    """Each public method is a tool; its docstring is the description."""

    def __init__(self, access: Access, helper: Helper) -> None:
        self._access = access
        self._helper = helper

    def list_envs(
        self,
        search_for: Annotated[str, Field(max_length=100, description="Words that the id contains, or nearly")] = "",
        tuned_for_algo: Annotated[str | None, Field(description="Only those with tuned hyperparameters for it")] = None,
        limit: Annotated[int, Field(ge=1, le=200)] = 30,
    ) -> dict[str, Any]:
        """List environments that agents can be trained in: id, the score at which each counts as solved
        (reward_threshold), the length of an episode, and the algorithms with tuned hyperparameters. If few match, their
        observation and action spaces too."""
        entries = self._environments()
        if tuned_for_algo is not None:
            tuned, own = tuned_for(tuned_for_algo, entries)
            entries = tuned if search_for else own
        found, has_words = search(entries, search_for.split())
        shown = found[:limit]
        spaces: list[dict[str, str] | None] = [None] * len(shown)
        if len(shown) <= _FEW:
            spaces = self._helper.call(find_spaces_of, [entry.env_id for entry in shown], self._access.packages)
        listed = [entry.as_dict(of_env) for entry, of_env in zip(shown, spaces, strict=True)]
        note = {} if has_words else {"note": f"No id contains {search_for!r}: these are the nearest."}
        return {"total": len(found), **note, "environments": listed}

    def _environments(self) -> list[EnvEntry]:
        import_packages(self._access.packages)
        return list_environments()

    def list_configs(
        self, env: EnvId, algo: Annotated[str | None, Field(description="Only of this algorithm")] = None
    ) -> dict[str, Any]:
        """List the tuned hyperparameters for an environment, by algorithm: what start_training uses unless you change
        it. check_config shows the algorithm's defaults too."""
        entries = {entry.env_id: entry for entry in self._environments()}
        if env not in entries:
            raise UsageError(f"There is no environment {env[:50]!r}: {nearest(env, list(entries))}")
        if algo is not None:
            check_choice("algo", algo, algorithms())
        is_atari = "atari" in entries[env].tuned.values()
        configs = []
        for name in entries[env].tuned if algo is None else [algo]:
            section = find_section(None, name, env, is_atari)
            configs.append({"algo": name, "section": section.name, "hyperparams": section.values})
        return {"env": env, "configs": configs}

    def check_config(
        self, env: EnvId, algo: Algo = DEFAULT_ALGO, hyperparams: Hyperparams | None = None, steps: Steps = None
    ) -> str:
        """Check what start_training would use, without starting it: all mistakes at once, or else every hyperparameter
        with its value and where it comes from."""
        request = Request(
            algo,
            env,
            plain_hyperparams(hyperparams or {}),
            steps,
            str(self._access.log_folder),
            self._access.packages,
        )
        return _bounded(self._helper.call(describe_config, request))

    def list_runs(
        self,
        env: Annotated[str | None, Field(description="Only of this environment; * matches anything")] = None,
        algo: Annotated[str | None, Field(description="Only of this algorithm; * matches anything")] = None,
        states: Annotated[list[State] | None, Field(description="Only in these states")] = None,
        sort: Annotated[Order, Field(description="`started`: newest first; numbers: highest first")] = "started",
        limit: Annotated[int, Field(ge=1, le=200)] = 30,
    ) -> dict[str, Any]:
        """List the runs (trainings) of the log folder, with state, steps, score and whether they reached the threshold.
        `score` is the mean reward of the last evaluation; without evaluations, of the last training episodes. Other
        tools take the value of `run`."""
        entries = Registry(self._access.log_folder).entries()
        found = select_runs(entries, env, algo, states, sort)
        runs = [{"run": e["folder"], **{name: _short(e[name]) for name in _ENTRY}} for e in found[:limit]]
        return {"total": len(found), "runs": runs}

    def show_run(self, run: RunName) -> str:
        """Show all that is known of a run: how it ended, score, hyperparameters, versions, files."""
        return _bounded(describe_run(self._find(run)))

    def compare_runs(
        self,
        runs: Annotated[list[RunName], Field(min_length=2, max_length=50, description="The first is the baseline")],
    ) -> str:
        """Compare runs: scores over seeds with confidence intervals, steps to the threshold, and a verdict for each
        group. Runs that differ only in their seed are one group. Five seeds per group are needed for a verdict."""
        return _bounded(comparison_text([self._find(run) for run in runs]))

    def read_report(
        self,
        run: RunName,
        sections: Annotated[
            list[str] | None,
            Field(description="Titles, such as `What to try next`, `Score`, `Curves`, `Config`, `All numbers`"),
        ] = None,
    ) -> str:
        """Read the report of a run, made from its files now, also while it trains: how it ended, what to try next,
        score, alerts, curves as text, speed, config. It is cut if it is long: then ask for sections by their titles."""
        report = without_padding(make_report(self._find(run)))
        head, *parts = re.split(r"^(?=## )", report, flags=re.MULTILINE)
        by_title = {part[3:].partition("\n")[0]: part for part in parts}
        if sections is None:
            return _bounded(head + "".join(parts), f"Ask for sections: {', '.join(by_title)}.")
        for title in sections:
            check_choice("sections", title, by_title)
        return _bounded("".join(by_title[title] for title in sections))

    def read_alerts(self, run: RunName) -> str:
        """Read which alerts fired in a run, how often and when, and what to tune."""
        return self.read_report(run, ["Alerts"])

    def read_curves(
        self,
        run: RunName,
        metrics: Annotated[
            list[str] | None,
            Field(
                max_length=10, description="Names such as `rollout/ep_rew_mean`, `eval/mean_reward`, `train/approx_kl`"
            ),
        ] = None,
    ) -> str:
        """Read curves of a run as text: a chart and about ten points of each metric. Without metrics: a table of all
        that were logged, with first, last, lowest and highest value."""
        if not metrics:
            return self.read_report(run, ["All numbers"])
        record = read_record(self._find(run))
        if not record.series:
            raise UsageError(f"{run} has no curves: no metrics were logged yet, or not to a file.")
        lines = []
        for name in metrics:
            if name not in record.series:
                raise UsageError(f"The run has no metric {name[:80]!r}: {nearest(name, record.series)}")
            lines += [f"### {name}", meaning(name), "", *shown_curve(name, record.series[name])]
        return _bounded(without_padding(printable("\n".join(lines))))

    def _find(self, run: str) -> Path:
        return find_inside(run, self._access.log_folder)


def _bounded(text: str, advice: str = "") -> str:
    """Whole lines of at most :data:`MAX_CHARS` characters."""
    if len(text) <= MAX_CHARS:
        return text
    kept = text[:MAX_CHARS].rpartition("\n")[0] or text[:MAX_CHARS]
    return f"{kept}\n\n… {len(text) - len(kept):,} more characters are left out. {advice}".rstrip()


def _short(value: Any) -> Any:
    """Text from a folder that anybody may have written."""
    return printable(value)[:200] if isinstance(value, str) else value
