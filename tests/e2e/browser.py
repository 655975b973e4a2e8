"""Drives a headless Chromium through chromedriver (W3C WebDriver over HTTP)."""
import base64
import http.client
import json
import re
import shutil
import subprocess
import tempfile

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """With `with`: Chromium ends, and its profile is removed."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.mkdtemp(prefix="browser")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.port = int(found[1])
                break
        else:
            raise RuntimeError("chromedriver did not start")
        self.session = ""
        args = ["--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run",
                f"--user-data-dir={self.profile}",
                f"--window-size={width},{height}"]
        reply = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": args}}}})
        self.session = "/session/" + reply["sessionId"]
        self.call("POST", "/timeouts", {"script": 60000})

    def __enter__(self):
        return self

    def __exit__(self, *error):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        to.request(method, self.session + path,
                   None if method != "POST" else json.dumps(body or {}),
                   {"Content-Type": "application/json"})
        value = json.loads(to.getresponse().read())["value"]
        to.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(value["error"] + ": " + value["message"])
        return value

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        """What the script's promise or `return` gives."""
        return self.call("POST", "/execute/sync",
                         {"script": script, "args": list(args)})

    def until(self, expression):
        """Waits until the JavaScript expression is true, and returns it."""
        return self.run(
            "const ends = Date.now() + 50000;"
            "for (;;) {"
            f" const it = {expression};"
            " if (it) return it;"
            f" if (Date.now() > ends) throw new Error({json.dumps(expression)});"
            " await new Promise((done) => setTimeout(done, 20)); }")

    def find(self, css):
        return self.call("POST", "/element", {
            "using": "css selector", "value": css})[ELEMENT]

    def role(self, css):
        return self.call("GET", f"/element/{self.find(css)}/computedrole")

    def label(self, css):
        return self.call("GET", f"/element/{self.find(css)}/computedlabel")

    def keys(self, css, text):
        self.call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def press(self, key):
        """To the element that has the focus."""
        self.call("POST", "/actions", {"actions": [{
            "type": "key", "id": "keys", "actions": [
                {"type": "keyDown", "value": key},
                {"type": "keyUp", "value": key}]}]})

    def devtools(self, command, **params):
        return self.call("POST", "/goog/cdp/execute",
                         {"cmd": command, "params": params})

    def screenshot(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("GET", "/screenshot")))

    def problems(self):
        """What the console has logged: errors of scripts, refusals by the CSP."""
        return [x["message"] for x in
                self.call("POST", "/se/log", {"type": "browser"})
                if x["level"] == "SEVERE"]
