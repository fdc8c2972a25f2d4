"""Takes the pictures in docs/inspect.md, in a headless Chromium, of runs that it trains first.

python scripts/docs/inspect_pictures.py --output docs/images
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

RUNS = (("CartPole-v1", "30000"), ("FrozenLake-v1", "30000"))


def train(folder: Path) -> None:
    for env_id, steps in RUNS:
        command = [sys.executable, "-m", "sb3_ext", "train", "--env", env_id, "-n", steps, "--seed", "1"]
        subprocess.run(
            [*command, "--save-freq", "5000", "--eval-freq", "2500"],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )


def open_browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,900", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def take_pictures(browser: webdriver.Chrome, address: str, folder: Path) -> None:
    def wait_for(script: str) -> None:
        WebDriverWait(browser, 120).until(lambda _: browser.execute_script(f"return {script}"))

    def shoot(name: str) -> None:
        time.sleep(1)
        browser.save_screenshot(str(folder / f"inspect_{name}.png"))

    played = "view.panes.length && view.panes.every((pane) => pane.episode.table) && $('message').textContent === ''"
    browser.get(address)
    wait_for(played)
    browser.execute_script("view.goTo(60)")
    shoot("episode")
    browser.find_element(By.CSS_SELECTOR, "[data-tab=training]").click()
    wait_for("$('metric').options.length")
    shoot("training")
    browser.find_element(By.CSS_SELECTOR, "[data-tab=playground]").click()
    wait_for("$('task').options.length")
    Select(browser.find_element(By.ID, "task")).select_by_visible_text("Grid world")
    browser.find_element(By.ID, "start").click()
    time.sleep(12)
    shoot("playground")
    browser.find_element(By.ID, "stop").click()
    browser.find_element(By.CSS_SELECTOR, "[data-tab=episode]").click()
    Select(browser.find_element(By.ID, "run")).select_by_value("ppo_ext/FrozenLake-v1_1")
    wait_for("$('title').textContent.includes('FrozenLake')")
    other = Select(browser.find_element(By.ID, "other"))
    other.select_by_index(len(other.options) - 1)  # the earliest
    browser.find_element(By.ID, "play-episode").click()
    wait_for(f"view.panes.length === 2 && {played}")
    browser.execute_script("view.goTo(4)")
    shoot("compare")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="folder of the pictures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, socket.socket() as free:
        folder = Path(temporary)
        train(folder)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "sb3_ext", "inspect", "@best:CartPole-v1", "--no-browser"]
        server = subprocess.Popen([*command, "--port", str(port)], cwd=folder, stdout=subprocess.PIPE, text=True)
        browser = open_browser()
        try:
            assert server.stdout is not None
            server.stdout.readline()
            take_pictures(browser, f"http://127.0.0.1:{port}/", args.output)
        finally:
            browser.quit()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
