"use strict";
/** Curves, alerts and advice of runs, read again while one of them may be written. */
class TrainingView {
  constructor(say) {
    this.say = say; this.facts = new Map(); this.run = null; this.metric = null; this.readAt = 0;
    $("metric").onchange = () => { this.metric = $("metric").value; this.draw(); };
    $("compare").onchange = () => this.refresh();
    window.addEventListener("resize", () => this.draw());
    setInterval(() => { if (!$("tab-training").hidden && this.isDue) this.refresh().catch((error) => this.say(error.message, true)); }, 1000);
  }
  async show(run) { this.run = run; await this.refresh(); }
  get shown() { return [this.run, ...[...$("compare").selectedOptions].map((option) => option.value).filter((run) => run !== this.run)]; }
  get isDue() {
    const waits = [...this.facts.values()].map((facts) => facts.refresh_seconds).filter(Boolean);
    return waits.length > 0 && Date.now() - this.readAt >= 1000 * Math.min(...waits);
  }
  async refresh() {
    const { run, shown } = this;
    this.readAt = Infinity;
    try {
      const found = await Promise.all(shown.map(async (name) => [name, await getJson(`api/training?run=${encodeURIComponent(name)}`)]));
      if (run !== this.run) return;
      this.facts = new Map(found);
    } finally { this.readAt = Date.now(); }
    this.list(); this.draw(); this.tell();
  }
  list() {
    const names = [...new Set([...this.facts.values()].flatMap((facts) => Object.keys(facts.curves)))];
    if (!names.includes(this.metric)) this.metric = names[0];
    fillSelect($("metric"), names.map((name) => [name, name]));
    $("metric").value = this.metric;
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
    showTitle(facts);
    const share = facts.planned ? ` of ${shortNumber(facts.planned)} (${Math.round(100 * facts.steps / facts.planned)} %)` : "";
    $("state").textContent = `${stateText(facts)}${facts.state_hint ? ` (${facts.state_hint})` : ""}: ${shortNumber(facts.steps)} steps${share}` + (facts.threshold === null ? "" : `, threshold ${scoreText(facts.threshold)}`) + (facts.problems.length ? `. Can't be read: ${facts.problems.join("; ")}` : "");
    const alerts = facts.alerts.map((alert) => element("div", { className: "alert" }, element("b", { textContent: alert.id }), ` in ${shortNumber(alert.count)} logged rows, last at step ${shortNumber(alert.last_step)}. `, ...withCode(alert.advice || "")));
    $("alerts").replaceChildren(...(alerts.length ? alerts : ["None."]));
    const advice = facts.advice.map((text) => element("li", {}, ...withCode(text)));
    $("advice").replaceChildren(...(advice.length ? advice : [facts.refresh_seconds ? "None while the training may still run." : facts.alerts.length ? "See the alerts." : "None."]));
  }
}

function stateText(facts) { return facts.state === "unknown" ? "state unknown" : facts.state; }
function showTitle(facts) { $("title").textContent = `${facts.algo || ""} on ${facts.env || ""}: ${stateText(facts)}`; }
