"use strict";
const KNOBS = [
  ["learning_rate", "learning rate", -5, -0.5, -2.5, true], ["ent_coef", "entropy", 0, 0.2, 0.005, false],
  ["clip_range", "clip range", 0.02, 0.9, 0.2, false], ["gamma", "gamma", 0, 0.999, 0.98, false],
];

/** A training that runs in the server, and its hyperparameters as sliders. */
class Playground {
  constructor(say) {
    this.say = say; this.sliders = {};
    for (const [name, label, min, max, value, isLog] of KNOBS) {
      const slider = element("input", { type: "range", min, max, step: isLog ? 0.05 : 0.001, value });
      slider.id = `knob-${name}`;
      const shown = element("output");
      this.sliders[name] = { slider, isLog, shown };
      slider.oninput = () => { this.showKnobs(); this.send({ action: "set", knobs: { [name]: this.value(name) } }); };
      $("knobs").append(element("label", {}, element("span", {}, `${label} `, shown), slider));
    }
    this.showKnobs();
    $("start").onclick = () => this.send({ action: "start", task: $("task").value, knobs: Object.fromEntries(KNOBS.map(([name]) => [name, this.value(name)])) });
    $("stop").onclick = () => this.send({ action: "stop" });
    setInterval(() => { if (!$("tab-playground").hidden) this.refresh(); }, 500);
  }
  value(name) { const { slider, isLog } = this.sliders[name]; return isLog ? Number((10 ** Number(slider.value)).toPrecision(3)) : Number(slider.value); }
  showKnobs() { for (const name of Object.keys(this.sliders)) this.sliders[name].shown.textContent = this.value(name); }
  async send(asked) {
    try { this.show(await getJson("api/playground", { method: "POST", headers: { "Content-Type": "application/json", "X-sb3-ext": "1" }, body: JSON.stringify(asked) })); }
    catch (error) { this.say(error.message, true); }
  }
  async refresh() { try { this.show(await getJson("api/playground")); } catch (error) { this.say(error.message, true); } }
  show(state) {
    if (!$("task").options.length) $("task").append(...state.tasks.map((task) => element("option", { value: task, textContent: task })));
    if (state.error) this.say(state.error, true);
    $("stop").disabled = !state.runs;
    if (!state.task) { $("play-state").textContent = "Choose a task and press Start. The sliders work while it learns."; return; }
    const scores = state.curve.y;
    $("play-state").textContent = `${state.task}: ${shortNumber(state.steps)} steps` + (scores.length ? `, mean score ${scoreText(scores[scores.length - 1])}` : "") + (state.runs ? "" : " (stopped)");
    drawChart($("play-chart"), [{ name: "mean score of the last 100 episodes", ...state.curve }]);
    $("play-map").hidden = !state.map && !state.policy;
    $("play-scale").hidden = !state.map;
    $("play-hint").textContent = state.map ? "Colour: the critic's value. Arrows: the policy; longer is more likely." : state.policy ? "Bars: the probability of each action." : "";
    if (state.map) { drawMap($("play-map"), state.map, state.actions); showScale($("play-scale"), valueRange([state.map])); }
    else if (state.policy) drawBars($("play-map"), state.policy.probabilities[0]);
  }
}

function drawBars(canvas, probabilities) {
  const draw = canvas.getContext("2d"), width = canvas.width / probabilities.length, height = canvas.height - 40;
  draw.clearRect(0, 0, canvas.width, canvas.height);
  draw.font = "12px system-ui, sans-serif"; draw.textAlign = "center";
  probabilities.forEach((probability, index) => {
    draw.fillStyle = "#1f6feb"; draw.fillRect(index * width + 2, height * (1 - probability), width - 4, height * probability);
    const text = (said, y) => draw.fillText(said, (index + 0.5) * width, y, width - 4);
    draw.fillStyle = "#1d2733"; text(probability.toFixed(2), height + 16);
    draw.fillStyle = "#5d6b7a"; text(index, height + 34);
  });
  draw.textAlign = "start";
}
