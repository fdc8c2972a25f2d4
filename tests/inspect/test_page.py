"""The page in a real browser: load, scrub, export, compare, a run that is being written, the playground."""

import shutil
import socket
import threading
import time

import pytest
import uvicorn
from inspected_runs import add_episodes, stock_run, train
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from sb3_ext.cli import main
from sb3_ext.inspect.server import make_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium: apt-get install chromium chromium-driver"
)
RUN = "ppo_ext/CartPole-v1_1"
PATIENCE = 60


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("inspect") / "logs"
    train(logs, "CartPole-v1")
    return logs


@pytest.fixture(scope="module")
def address(logs):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(logs, logs / RUN), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(downloads):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,1000",
    ):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    def __init__(self, browser, address):
        self.browser = browser
        browser.get(address)

    def wait(self, condition):
        return WebDriverWait(self.browser, PATIENCE, 0.05).until(lambda _: condition())

    def ask(self, script):
        return self.browser.execute_script(f"return {script}")

    def click(self, selector):
        self.browser.find_element(By.CSS_SELECTOR, selector).click()

    def text(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector).text

    def choose(self, selector, value):
        Select(self.browser.find_element(By.CSS_SELECTOR, selector)).select_by_value(value)

    def values(self, selector):
        return self.ask(f"[...document.querySelector('{selector}').options].map((option) => option.value)")

    def press(self, *keys):
        self.browser.find_element(By.TAG_NAME, "body").send_keys(*keys)

    def wait_for_episodes(self):
        self.wait(lambda: self.ask("view.panes.length && view.panes.every((pane) => pane.episode.table)"))
        self.wait(lambda: self.text("#message") == "")

    @property
    def n_episodes_asked(self):
        asked = "performance.getEntriesByType('resource').filter((entry) => entry.name.includes('api/episode'))"
        return self.ask(f"{asked}.length")

    @property
    def step(self):
        return self.ask("view.step")


@pytest.fixture
def page(browser, address):
    page = Page(browser, address)
    yield page
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_an_episode_is_played_and_keys_go_through_it_without_asking_the_server(page):
    page.wait_for_episodes()
    assert page.wait(lambda: page.ask("document.querySelector('img.frame').naturalWidth")) == 600
    before = page.n_episodes_asked
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert page.step == 1
    first = page.ask("document.querySelector('img.frame').src")
    page.press("e")
    assert page.ask("document.querySelector('img.frame').src") != first
    assert page.step == page.ask("view.panes[0].episode.length")  # the picture after the last action
    page.press("t")
    errors = [abs(error) for error in page.ask("view.panes[0].episode.column('td_error')")]
    assert page.step == errors.index(max(errors))
    page.press("w")
    advantages = page.ask("view.panes[0].episode.column('advantage')")
    assert page.step == advantages.index(min(advantages))
    assert page.n_episodes_asked == before == 1
    assert "angle" in page.text(".details") and "td error" in page.text(".details")


def test_the_table_is_sorted_by_a_column_and_a_row_leads_to_its_step(page):
    page.wait_for_episodes()
    heads = page.ask("[...document.querySelectorAll('#steps th')].map((head) => head.textContent)")
    page.click(f"#steps th:nth-child({heads.index('value') + 1})")
    order = page.ask("view.order")
    values = page.ask("view.panes[0].episode.column('value')")
    assert [values[step] for step in order] == sorted(values)
    assert "value ▲" in page.ask("[...document.querySelectorAll('#steps th')].map((head) => head.textContent)")
    page.ask("document.querySelectorAll('#steps tbody tr')[1].click()")
    assert page.step == order[0]


def test_two_models_are_shown_side_by_side_on_the_same_seed(page):
    page.wait_for_episodes()
    page.choose("#model", "128")
    page.choose("#other", "final")
    page.click("#play-episode")
    page.wait(lambda: page.ask("view.panes.length") == 2)
    page.wait_for_episodes()
    titles = page.ask("view.panes.map((pane) => pane.title.textContent)")
    assert "@128 (128 steps), seed 0" in titles[0] and "@final (256 steps), seed 0" in titles[1]
    states = page.ask("view.panes.map((pane) => pane.episode.column('obs_0')[0])")
    assert states[0] == states[1]
    lines = page.ask("view.lines().map((line) => [line.name, line.colour, line.isDashed])")
    assert [name for name, *_ in lines[:2]] == ["value (1)", "value (2)"]
    assert lines[0][1] == lines[1][1] != lines[2][1] and [dashed for *_, dashed in lines[:2]] == [False, True]


def test_the_frame_and_the_slider_fit_into_a_small_window(page):
    page.wait_for_episodes()
    size = {"width": 1366, "height": 768, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        frame, slider = (
            page.ask(f"(() => {{ const box = {found}.getBoundingClientRect(); return [box.top, box.bottom]; }})()")
            for found in ("document.querySelector('img.frame')", "$('slider')")
        )
        assert 0 < frame[0] and frame[1] <= slider[0] and slider[1] <= 768
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_maps_share_a_scale_without_states_that_have_no_value(page):
    maps = "[{ values: [1, 9, 3], terminal: [1] }, { values: [-2, 0], terminal: [] }]"
    assert page.ask(f"valueRange({maps})") == [-2, 3]


@pytest.mark.parametrize(("low", "high", "wanted"), [(0, 186, [0, 50, 100, 150]), (0.11, 0.48, [0.2, 0.3, 0.4])])
def test_ticks_are_round_numbers(page, low, high, wanted):
    assert page.ask(f"ticks({low}, {high}, tickStep({low}, {high}, 4))") == wanted


def test_scores_have_four_digits(page):
    shown = page.ask("[326.2, 0.8, 441, 1234.5, -0.0001].map(scoreText)")
    assert shown == ["326.2", "0.8", "441", "1,235", "-0.0001"]


def test_what_is_between_backticks_is_shown_as_code(page):
    shown = page.ask("element('p', {}, ...withCode('Lower `gamma` <b>.')).innerHTML")
    assert shown == "Lower <code>gamma</code> &lt;b&gt;."


@pytest.mark.parametrize("exported_by", ["page", "command"])
def test_an_exported_episode_opens_without_a_server(page, downloads, logs, tmp_path, exported_by):
    page.wait_for_episodes()
    file = tmp_path / "episode.html"
    if exported_by == "page":
        page.click("#export")
        page.wait(lambda: (downloads / "episode.html").is_file())
        file = downloads / "episode.html"
    else:
        assert main(["inspect", "@last", "-f", str(logs), "--export", str(file)]) == 0
    rows = page.ask("view.panes[0].episode.table")
    alone = Page(page.browser, file.as_uri())
    alone.wait_for_episodes()
    assert alone.ask("view.panes[0].episode.table") == rows
    assert not alone.browser.find_element(By.ID, "play-episode").is_displayed()


def test_a_run_that_is_being_written_is_followed(page, logs):
    page.wait_for_episodes()
    page.click("[data-tab=training]")
    page.wait(lambda: "finished: 256 steps" in page.text("#state"))
    progress = logs / RUN / "progress.csv"
    facts = (logs / RUN / "run.json").read_text(encoding="utf-8")
    rows = progress.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        progress.write_text("".join(rows[:2]), encoding="utf-8")
        (logs / RUN / "run.json").write_text(_as_running(facts), encoding="utf-8")
        page.browser.refresh()
        page.click("[data-tab=training]")
        page.wait(lambda: "running:" in page.text("#state"))
        shown = page.text("#state")
        progress.write_text("".join(rows), encoding="utf-8")
        page.wait(lambda: page.text("#state") != shown)
    finally:
        progress.write_text("".join(rows), encoding="utf-8")
        (logs / RUN / "run.json").write_text(facts, encoding="utf-8")


def _as_running(facts):
    import json
    import os

    import psutil

    known = {"state": "running", "pid": os.getpid(), "process_started": psutil.Process().create_time()}
    return json.dumps({**json.loads(facts), **known, "host": socket.gethostname(), "steps": 0})


def test_a_stock_run_is_followed_too_and_its_state_is_called_unknown(page, logs):
    page.wait_for_episodes()
    folder = logs / "ppo" / "CartPole-v1_1"
    stock_run(folder, [10, 20])
    try:
        page.wait(lambda: "ppo/CartPole-v1_1" in page.values("#compare"))
        page.choose("#run", "ppo/CartPole-v1_1")
        page.click("[data-tab=training]")
        page.wait(lambda: "state unknown (RL Zoo" in page.text("#state") and "30 steps of 100" in page.text("#state"))
        assert page.values("#compare") == [RUN]
        metric = page.browser.find_element(By.CSS_SELECTOR, "#metric option")
        add_episodes(folder, [30])
        page.wait(lambda: "60 steps of 100" in page.text("#state"))
        assert metric.get_attribute("value") == "score"  # the list was not built again
        assert "may still run" in page.text("#advice")
    finally:
        shutil.rmtree(folder.parent)


def test_a_run_that_starts_later_is_listed_and_one_without_a_model_says_so(page, logs):
    page.wait_for_episodes()
    empty = logs / "ppo_ext" / "CartPole-v1_2" / "CartPole-v1"
    empty.mkdir(parents=True)
    (empty / "args.yml").write_text("algo: ppo_ext\nenv: CartPole-v1\n", encoding="utf-8")
    try:
        page.wait(lambda: "ppo_ext/CartPole-v1_2" in page.values("#run"))
        page.choose("#run", "ppo_ext/CartPole-v1_2")
        page.wait(lambda: "no model to play" in page.text("#message"))
    finally:
        shutil.rmtree(empty.parent)


def test_the_playground_shows_learning_and_obeys_its_sliders(page):
    page.wait_for_episodes()
    page.click("[data-tab=playground]")
    page.wait(lambda: page.ask("document.getElementById('task').options.length"))
    page.choose("#task", "Grid world")
    page.click("#start")
    page.wait(lambda: "mean score" in page.text("#play-state"))
    page.ask("(() => { const knob = document.getElementById('knob-gamma'); knob.value = 0.5; knob.oninput(); })()")
    deadline = time.monotonic() + PATIENCE
    while page.browser.execute_async_script("getJson('api/playground').then(arguments[0])")["knobs"]["gamma"] != 0.5:
        assert time.monotonic() < deadline
    page.click("#stop")
    page.wait(lambda: "(stopped)" in page.text("#play-state"))
