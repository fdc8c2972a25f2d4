"use strict";
/** Curves, alerts and advice of runs, read again while one of them is being written. */
class TrainingView {
  constructor(say) {
    this.say = say; this.facts = new Map(); this.run = null; this.metric = null;
    $("metric").onchange = () => { this.metric = $("metric").value; this.draw(); };
    $("compare").onchange = () => this.refresh();
    window.addEventListener("resize", () => this.draw());
    setInterval(() => { if (!$("tab-training").hidden && [...this.facts.values()].some((facts) => facts.state === "running")) this.refresh(); }, 2000);
  }
  async show(run) { this.run = run; await this.refresh(); }
  get shown() { return [this.run, ...[...$("compare").selectedOptions].map((option) => option.value).filter((run) => run !== this.run)]; }
  async refresh() {
    const found = await Promise.all(this.shown.map(async (run) => [run, await getJson(`api/training?run=${encodeURIComponent(run)}`)]));
    this.facts = new Map(found);
    this.list(); this.draw(); this.tell();
  }
  list() {
    const names = [...new Set([...this.facts.values()].flatMap((facts) => Object.keys(facts.curves)))];
    if (!names.includes(this.metric)) this.metric = names[0];
    $("metric").replaceChildren(...names.map((name) => element("option", { value: name, textContent: name, selected: name === this.metric })));
  }
  draw() {
    if ($("tab-training").hidden || !this.facts.size) return;
    const lines = [...this.facts].map(([run, facts]) => ({ name: run, ...(facts.curves[this.metric] || { x: [], y: [] }) }));
    const own = this.facts.get(this.run), isScore = ["evaluation", "score", "eval/mean_reward", "rollout/ep_rew_mean"].includes(this.metric);
    drawChart($("training-chart"), lines, { level: isScore && own ? own.threshold : null });
    $("meaning").textContent = own && own.meanings[this.metric] ? own.meanings[this.metric] : "";
  }
  tell() {
    const facts = this.facts.get(this.run);
    const share = facts.planned ? ` of ${shortNumber(facts.planned)} (${Math.round(100 * facts.steps / facts.planned)} %)` : "";
    $("state").textContent = `${facts.state}: ${shortNumber(facts.steps)} steps${share}` + (facts.threshold === null ? "" : `, threshold ${shortNumber(facts.threshold)}`) + (facts.problems.length ? `. Can't be read: ${facts.problems.join("; ")}` : "");
    const alerts = facts.alerts.map((alert) => element("div", { className: "alert" }, element("b", { textContent: alert.id }), ` in ${alert.count} rows, last at step ${shortNumber(alert.last_step)}. ${alert.advice || ""}`));
    $("alerts").replaceChildren(...(alerts.length ? alerts : ["None."]));
    $("advice").replaceChildren(...facts.advice.map((text) => element("li", { textContent: text })));
  }
}
