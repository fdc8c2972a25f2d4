"use strict";
async function getJson(address, options) {
  const answer = await fetch(address, options);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

function say(text, isBad = false) { $("message").textContent = text; $("message").className = isBad ? "bad" : ""; }

/** Reads one message per line, as soon as it is there. */
async function readMessages(address, onMessages) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error((await answer.json()).error || answer.statusText);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = done ? "" : lines.pop();
    const messages = lines.filter(Boolean).map((line) => JSON.parse(line));
    if (messages.length) onMessages(messages);
    if (done) return;
  }
}

async function playEpisodes(view) {
  const models = [$("model").value, $("other").value].filter(Boolean);
  const asked = models.map((model) => new URLSearchParams({ run: $("run").value, model, seed: $("seed").value || "0", stochastic: Number($("stochastic").checked), saliency: Number($("saliency").checked) }));
  say("Playing…"); view.start(models.length); $("export").disabled = $("play-episode").disabled = true;
  try {
    for (const [index, query] of asked.entries()) {
      await readMessages(`api/episode?${query}`, (messages) => { messages.forEach((message) => view.panes[index].episode.add(message)); view.update(); });
    }
    say(""); $("export").disabled = false;
  } catch (error) { say(error.message, true); }
  $("play-episode").disabled = false;
}

async function exportPage(view) {
  const page = await (await fetch("./")).text();
  const data = JSON.stringify({ episodes: view.panes.map((pane) => pane.episode.messages) }).replaceAll("<", "\\u003c");
  const opening = '<script id="data" type="application/json">', start = page.indexOf(opening) + opening.length;
  const whole = page.slice(0, start) + data + page.slice(page.indexOf("</", start));
  const link = element("a", { href: URL.createObjectURL(new Blob([whole], { type: "text/html" })), download: "episode.html" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function showFile(view, data) {
  document.body.classList.add("file");
  view.start(data.episodes.length);
  data.episodes.forEach((messages, index) => messages.forEach((message) => view.panes[index].episode.add(message)));
  view.update();
}

/** Runs may start while the page is open. */
async function listRuns() {
  const answer = await getJson("api/runs");
  fillSelect($("run"), answer.runs.map((run) => [run.run, run.best_score === null ? run.run : `${run.run} (${scoreText(run.best_score)})`]));
  listOthers();
  return answer;
}

function listOthers() {
  const others = [...$("run").options].filter((option) => !option.selected);
  fillSelect($("compare"), others.map((option) => [option.value, option.textContent]));
}

async function connect(view) {
  const training = new TrainingView(say), playground = new Playground(say);
  const wanted = new URLSearchParams(location.hash.slice(1)).get("model");
  const show = (tab) => {
    for (const button of document.querySelectorAll("[data-tab]")) button.classList.toggle("on", button.dataset.tab === tab);
    for (const name of ["episode", "training", "playground"]) $(`tab-${name}`).hidden = name !== tab;
    if (tab === "training" && $("run").value) training.show($("run").value).catch((error) => say(error.message, true));
    if (tab === "playground") playground.refresh();
    view.drawCurves();
  };
  for (const button of document.querySelectorAll("[data-tab]")) button.onclick = () => show(button.dataset.tab);
  const choose = async () => {
    listOthers();
    const facts = await getJson(`api/training?run=${encodeURIComponent($("run").value)}`);
    const names = [...facts.models].reverse();
    const options = names.map((name) => [name, name]);
    fillSelect($("model"), options); fillSelect($("other"), [["", "nothing"], ...options]);
    if (names.includes(wanted)) $("model").value = wanted;
    showTitle(facts);
    $("play-episode").disabled = !names.length;
    say(names.length ? "" : "This run has no model to play. The training tab shows its curves.");
    if (!$("tab-training").hidden) await training.show($("run").value);
    return names.length > 0;
  };
  $("run").onchange = () => choose().catch((error) => say(error.message, true));
  $("ask").onsubmit = (event) => { event.preventDefault(); playEpisodes(view); };
  $("export").onclick = () => exportPage(view);
  const { runs, first } = await listRuns();
  setInterval(async () => {
    const before = $("run").value;
    if (document.hidden || !await listRuns().catch(() => null)) return;
    if ($("run").value !== before) $("run").onchange();
  }, 5000);
  if (!runs.length) { say("There are no runs in this log folder. The playground works without one."); return; }
  if (first) $("run").value = first;
  if (await choose() && first) await playEpisodes(view);
}

const embedded = JSON.parse($("data").textContent), view = new EpisodeView();
if (embedded) showFile(view, embedded); else connect(view).catch((error) => say(error.message, true));
