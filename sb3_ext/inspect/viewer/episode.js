"use strict";
/** One episode, filled by messages as they arrive; see sb3_ext/inspect/episode.py. */
class Episode {
  constructor() { this.messages = []; this.pictures = []; this.seen = []; this.facts = {}; this.map = null; this.table = null; }
  add(message) {
    if (message.error) throw new Error(message.error);
    this.messages.push(message);
    if (message.start) { this.facts = message.start; this.map = message.map; this.noPictures = message.no_pictures; }
    if (message.pictures) { this.pictures.push(...message.pictures); this.seen.push(...message.seen); }
    if (message.end) { this.table = message.end; this.score = message.score; this.isOver = message.is_over; this.lastPicture = message.last_picture; }
  }
  get length() { return this.table ? this.table.step.length : this.pictures.length; }
  /** Steps that the slider has: one more than actions, if there is a picture of the end. */
  get frames() { return this.length + (this.lastPicture ? 1 : 0); }
  picture(step) { return step >= this.length ? this.lastPicture : this.pictures[step]; }
  column(name) { return this.table && this.table[name] ? this.table[name] : []; }
  actionName(index) { return this.facts.actions && this.facts.actions[index] !== undefined ? this.facts.actions[index] : `action ${index}`; }
  state() { return this.map && this.table ? this.column("obs") : null; }
}

/** A picture with everything that is known of its step. */
class Pane {
  constructor(episode) {
    this.episode = episode;
    this.title = element("h3");
    this.frame = element("img", { className: "frame", alt: "" });
    this.stack = element("img", { className: "stack", alt: "what the agent sees", hidden: true });
    this.saliency = element("img", { className: "stack", alt: "what the network looks at", hidden: true });
    this.canvas = element("canvas", { width: 320, height: 320, hidden: true });
    this.details = element("div", { className: "details" });
    this.scale = element("small", { className: "scale", hidden: true });
    this.screen = element("div", { className: "screen" }, this.frame, this.stack, this.saliency, this.canvas, this.scale);
    this.root = element("article", { className: "pane" }, this.title, this.screen, this.details);
    this.frame.onload = () => this.frame.classList.toggle("pixels", this.frame.naturalWidth < 250);
  }
  /** `range`: the values that the map's colours stand for. */
  show(step, range) {
    const episode = this.episode, facts = episode.facts, inside = Math.min(step, episode.length - 1);
    const score = episode.table ? `, score ${scoreText(episode.score)} in ${episode.length} steps${episode.isOver ? "" : " (cut off)"}` : `, playing: ${episode.length} steps`;
    this.title.textContent = `${facts.algo ?? ""} on ${facts.env ?? ""}, ${facts.run ?? ""} @${facts.model ?? ""} (${shortNumber(facts.steps)} steps), seed ${facts.seed}${score}`;
    const source = episode.picture(Math.min(step, episode.frames - 1)) || episode.picture(inside);
    this.frame.hidden = !source;
    if (source && this.frame.src !== source) this.frame.src = source;
    const seen = episode.seen[inside] || {};
    for (const [image, key] of [[this.stack, "observation"], [this.saliency, "saliency"]]) {
      image.hidden = !seen[key];
      if (seen[key]) image.src = seen[key];
    }
    const states = episode.state();
    this.canvas.hidden = this.scale.hidden = !episode.map;
    this.screen.classList.toggle("mapped", Boolean(episode.map));
    if (episode.map) { drawMap(this.canvas, episode.map, facts.actions || [], states && states.length ? states[inside] : null, range); showScale(this.scale, range); }
    this.showNumbers(inside);
  }
  showNumbers(step) {
    const episode = this.episode, table = episode.table, rows = [];
    if (episode.noPictures) rows.push(textRow("picture", episode.noPictures));
    if (!table) { this.details.replaceChildren(element("table", {}, ...rows)); return; }
    const value = (name) => table[name] ? table[name][step] : undefined;
    const chosen = value("action");
    rows.push(textRow("step", `${step} of ${episode.length}`));
    const action = typeof chosen === "number" ? (value("action_label") ?? episode.actionName(chosen)) : Object.keys(table).filter((name) => /^action_\d/.test(name)).map((name) => shortNumber(value(name))).join(", ");
    rows.push(textRow("action", action));
    for (const name of Object.keys(table).filter((key) => /^(prob|q|mean|std)_/.test(key))) {
      const index = /^prob_\d+$|^q_\d+$/.test(name) ? Number(name.split("_")[1]) : null;
      const label = index === null || typeof chosen !== "number" ? outputName(name, episode.facts) : `${name.startsWith("q_") ? "Q " : ""}${episode.actionName(index)}`;
      rows.push(barRow(label, value(name), name.startsWith("prob") ? value(name) : null, index !== null && index === chosen));
    }
    const names = ["value", "return", "advantage", "baseline_advantage", "td_error", "entropy", "log_prob", "reward", "seen_reward", ...Object.keys(table).filter((name) => name.startsWith("term_"))];
    for (const name of names) if (value(name) !== undefined && value(name) !== null) rows.push(barRow(name.replace(/_/g, " "), value(name), null));
    const observed = Object.keys(table).filter((name) => name.startsWith("obs"));
    for (const name of observed) {
      const numbers = table[name].filter((number) => number !== null), size = Math.max(...numbers.map(Math.abs), 1e-9);
      rows.push(barRow((episode.facts.observations || {})[name] || name, value(name), Math.abs(value(name)) / size));
    }
    this.details.replaceChildren(element("table", {}, ...rows));
  }
}

/** SAC squashes what it samples with tanh: an action is not where the mean is. */
function outputName(name, facts) { return facts.is_squashed && /^(mean|std)_/.test(name) ? `${name} before tanh` : name; }
function textRow(name, text) { return element("tr", {}, element("td", { textContent: name }), element("td", { textContent: text, colSpan: 2 })); }
function barRow(name, value, share, isChosen = false) {
  const bar = element("div"), shown = share !== null && Number.isFinite(share);
  bar.style.width = shown ? `${Math.round(100 * Math.min(Math.max(share, 0), 1))}%` : "0";
  bar.hidden = !shown; bar.className = value < 0 ? "negative" : "";
  return element("tr", { className: isChosen ? "chosen" : "" }, element("td", { textContent: name }), element("td", { className: "bar-cell" }, bar), element("td", { className: "number", textContent: shortNumber(value) }));
}

const DEFAULT_CURVES = ["value", "return", "advantage", "td_error", "reward"];
const ROW_HEIGHT = 22;

/** One or two episodes with a common slider, curves and the table. */
class EpisodeView {
  constructor() {
    this.panes = []; this.step = 0; this.timer = null; this.chosen = new Set(DEFAULT_CURVES); this.order = []; this.sorted = null;
    $("slider").oninput = () => this.goTo(Number($("slider").value));
    $("run-film").onclick = () => this.toggle();
    document.querySelectorAll("[data-jump]").forEach((button) => { button.onclick = () => this.jump(button.dataset.jump); });
    $("episode-chart").onclick = (event) => { const x = this.xOfPixel && this.xOfPixel(event.offsetX); if (x !== null && x !== undefined) this.goTo(Math.round(x)); };
    $("table-window").onscroll = () => this.fillTable();
    document.addEventListener("keydown", (event) => this.onKey(event));
    window.addEventListener("resize", () => this.drawCurves());
  }
  start(n) {
    this.pause(); this.step = 0; this.order = []; this.sorted = null;
    this.panes = Array.from({ length: n }, () => new Pane(new Episode()));
    $("panes").replaceChildren(...this.panes.map((pane) => pane.root));
    $("transport").hidden = false; $("curves").hidden = $("steps").hidden = true;
  }
  /** Called when messages have arrived. */
  update() {
    $("slider").max = Math.max(this.frames - 1, 0);
    if (this.panes[0].episode.table && !this.order.length) {
      this.order = Array.from({ length: this.panes[0].episode.length }, (_, i) => i);
      $("curves").hidden = $("steps").hidden = false;
      this.listColumns(); this.headTable();
    }
    this.goTo(this.step);
  }
  get frames() { return Math.max(...this.panes.map((pane) => pane.episode.frames), 1); }
  goTo(step) {
    this.step = Math.min(Math.max(step, 0), this.frames - 1);
    $("slider").value = this.step; $("position").textContent = this.step;
    const range = valueRange(this.panes.map((pane) => pane.episode.map).filter(Boolean));
    for (const pane of this.panes) if (pane.episode.length) pane.show(this.step, range);
    this.drawCurves(); this.showRow();
  }
  toggle() { if (this.timer) this.pause(); else { if (this.step >= this.frames - 1) this.goTo(0); this.timer = setInterval(() => { if (this.step >= this.frames - 1) this.pause(); else this.goTo(this.step + 1); }, 40); $("run-film").textContent = "❚❚"; } }
  pause() { clearInterval(this.timer); this.timer = null; $("run-film").textContent = "▶"; }
  jump(where) {
    const episode = this.panes[0].episode, numbers = episode.column(where);
    if (where === "end") return this.goTo(this.frames - 1);
    const size = where === "td_error" ? (y) => Math.abs(y) : (y) => -y;
    let best = null;
    numbers.forEach((y, i) => { if (y !== null && (best === null || size(y) > size(numbers[best]))) best = i; });
    if (best !== null) this.goTo(best);
  }
  onKey(event) {
    if (!this.panes.length || $("tab-episode").hidden || /^(SELECT|TEXTAREA)$/.test(event.target.tagName) || (event.target.tagName === "INPUT" && event.target.type !== "range")) return;
    const far = event.shiftKey ? 10 : 1;
    const keys = { ArrowLeft: () => this.goTo(this.step - far), ArrowRight: () => this.goTo(this.step + far), " ": () => this.toggle(), Home: () => this.goTo(0), End: () => this.jump("end"), t: () => this.jump("td_error"), w: () => this.jump("advantage"), e: () => this.jump("end") };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  }
  listColumns() {
    const names = Object.entries(this.panes[0].episode.table).filter(([name, column]) => name !== "step" && column.some((y) => typeof y === "number")).map(([name]) => name);
    $("columns").replaceChildren(...names.map((name) => {
      const box = element("input", { type: "checkbox", checked: this.chosen.has(name) });
      box.onchange = () => { if (box.checked) this.chosen.add(name); else this.chosen.delete(name); this.drawCurves(); };
      const known = this.panes[0].episode.facts.observations || {};
      return element("label", { title: name }, box, ` ${known[name] || name}`);
    }));
  }
  drawCurves() {
    if ($("curves").hidden || $("tab-episode").hidden) return;
    this.xOfPixel = drawChart($("episode-chart"), this.lines(), { cursor: this.step });
  }
  /** A column has the same colour in both episodes; those of the second are dashed. */
  lines() {
    const known = this.panes[0].episode.facts.observations || {};
    return [...this.chosen].flatMap((name, index) => this.panes.map((pane, place) => ({
      name: `${known[name] || name}${this.panes.length > 1 ? ` (${place + 1})` : ""}`,
      colour: COLOURS[index % COLOURS.length], isDashed: place > 0, x: pane.episode.column("step"),
      y: pane.episode.column(name).map((y) => typeof y === "number" ? y : null),
    }))).filter((line) => line.y.some((y) => y !== null));
  }
  headTable() {
    const names = Object.keys(this.panes[0].episode.table);
    $("steps").querySelector("thead").replaceChildren(element("tr", {}, ...names.map((name) => {
      const sign = this.sorted && this.sorted.name === name ? this.sorted.sign : 0;
      const head = element("th", { textContent: `${name}${sign ? (sign > 0 ? " ▲" : " ▼") : ""}` });
      head.onclick = () => this.sort(name);
      return head;
    })));
    this.fillTable();
  }
  sort(name) {
    const column = this.panes[0].episode.column(name), sign = this.sorted && this.sorted.name === name ? -this.sorted.sign : 1;
    this.sorted = { name, sign };
    const rank = (value) => value === null ? Infinity : value;
    this.order.sort((a, b) => { const x = rank(column[a]), y = rank(column[b]); return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b; });
    $("table-window").scrollTop = 0; this.headTable();
  }
  /** Only the rows that can be seen exist. */
  fillTable() {
    const table = this.panes[0] && this.panes[0].episode.table;
    if (!table) return;
    const box = $("table-window"), body = box.querySelector("tbody"), names = Object.keys(table);
    const first = Math.max(Math.floor(box.scrollTop / ROW_HEIGHT) - 5, 0), last = Math.min(first + Math.ceil(box.clientHeight / ROW_HEIGHT) + 10, this.order.length);
    const gap = (height) => { const row = element("tr"); row.style.height = `${height}px`; return row; };
    const rows = this.order.slice(first, last).map((step) => {
      const row = element("tr", { className: step === this.step ? "here" : "" }, ...names.map((name) => element("td", { textContent: shortNumber(table[name][step]) })));
      row.onclick = () => this.goTo(step);
      return row;
    });
    // The rest lets the last rows end at the window's edge: the heading then covers no half of a row
    body.replaceChildren(gap(first * ROW_HEIGHT), ...rows, gap((this.order.length - last) * ROW_HEIGHT + box.clientHeight % ROW_HEIGHT));
  }
  showRow() {
    if ($("steps").hidden) return;
    const place = this.order.indexOf(this.step), box = $("table-window");
    if (place >= 0 && (place * ROW_HEIGHT < box.scrollTop || (place + 3) * ROW_HEIGHT > box.scrollTop + box.clientHeight)) box.scrollTop = Math.max((place - 4) * ROW_HEIGHT, 0);
    this.fillTable();
  }
}
