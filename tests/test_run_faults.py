"""A model that drops connections and a process that is killed: every answer stands once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson

from dyknow.journal import read_run
from dyknow.verify import Verified, verify
from tests.test_run import REPO, STUDY, lines_of, wait_for_rows

# Faults

FLAKY = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from dyknow import benchmark
from dyknow.models.base import Answer
from dyknow.models.scripted import Script, Scripted
from dyknow.run import run_model

class Flaky(Scripted):  # answers one at a time, drops every fifth connection, and writes down what it was asked
    asked = 0

    def info(self):
        return super().info() | {"sampling": {"method": "random"}}

    def generate(self, questions, batch_size, sample=0):
        with open(sys.argv[2], "ab", buffering=0) as heard:
            for batch in super().generate(questions, 1, sample):
                heard.write(f"{batch[0].question.id} {sample}\\n".encode())
                self.asked += 1
                if self.asked % 5 == 0:
                    lost = Answer(None, None, batch[0].answer.prompt, None, None, "connection dropped")
                    batch = [batch[0]._replace(answer=lost)]
                yield batch

study = benchmark.load()
model = Flaky(Script({"*": "Nobody at all"}, {}, float(sys.argv[3])))
run_model(model, study.questions()[:40], Path(sys.argv[1]), benchmark=study, clock=lambda: datetime.now(UTC), samples=2)
"""


def test_a_flaky_model_and_three_kills_leave_every_answer_exactly_once(tmp_path: Path) -> None:
    def begin(seconds: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", FLAKY, str(tmp_path / "runs"), str(tmp_path / "heard"), str(seconds)]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(REPO)})

    for lines in (13, 37, 61):
        with begin(0.005) as child:
            folder = wait_for_rows(tmp_path, lines)
            child.send_signal(signal.SIGKILL)
        assert read_run(folder).state == "interrupted"
    for _ in range(5):  # what failed is asked again by the same command
        with begin(0) as child:
            assert child.wait() == 0
        if read_run(folder).state == "done":
            break
    done = read_run(folder)
    rows = [orjson.loads(line) for line in lines_of(done).read_bytes().splitlines()]
    wanted = {(question.id, sample) for question in STUDY.questions()[:40] for sample in (0, 1)}
    good = [(row["question"], row["sample"]) for row in rows if row["status"] == "ok"]
    assert (len(good), set(good)) == (80, wanted)
    stored = Counter((row["question"], row["sample"]) for row in rows)
    heard = Counter((line.split()[0], int(line.split()[1])) for line in (tmp_path / "heard").read_text().splitlines())
    # A kill may catch an answer on its way to the disk: that one is asked again, and no other.
    assert sum((heard - stored).values()) <= 3
    assert not stored - heard
    assert done.info["tokens"] == 80 * 3
    assert done.info["prompt_tokens"] == sum(row["prompt_tokens"] or 0 for row in rows)
    assert sum(leg["asked"] for leg in done.info["legs"]) == len(rows)
    assert verify(done) == Verified(None, {"ok": 80}, False)
