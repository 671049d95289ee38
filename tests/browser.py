"""A headless Chromium for tests, spoken to over pipes: its protocol needs no library then."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

# The browser reads commands from descriptor 3 and writes answers to descriptor 4.
_STARTER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, own in zip(ends, (3, 4)):
    os.dup2(end, own)
    os.close(end)
os.execv(sys.argv[3], sys.argv[3:])
"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> str | None:
    """Return the browser's path, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A page of a headless browser; ``said`` holds what its console said."""

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                 "--no-first-run", f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
        starter = [sys.executable, "-c", _STARTER, str(to_read), str(to_write), *words]
        self._process = subprocess.Popen(starter, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number, self._session, self._loaded = b"", 0, "", False
        self.said: list[str] = []
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever the protocol takes
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser is gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._listen(message.get("method"), message.get("params", {}))
        return message

    def _listen(self, method: str | None, about: Mapping[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(one.get("value", one.get("description"))) for one in about["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(about["exceptionDetails"])[:500])
        elif method == "Log.entryAdded":
            self.said.append(about["entry"]["text"])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until its script has run and its charts are drawn."""
        self._loaded = False
        done = self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        while "loaderId" in done and not self._loaded:
            self._next()
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds in the page."""
        self.run(
            f"new Promise((done) => {{ const look = () => ({condition}) ? done() : setTimeout(look, 20); look(); }})"
        )

    def run(self, script: str) -> Any:  # noqa: ANN401 -- what the script gives
        """Return what a script gives."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go."""
        extra = {"text": "\r"} if key == "Enter" else {}
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def media(self, kind: str = "", dark: bool = False) -> None:
        """Show the page as printed ("print") or on a screen (""), light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save what the window shows, or the whole page, as PNG."""
        made = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))
