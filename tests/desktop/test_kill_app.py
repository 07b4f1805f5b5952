"""kill -9 of the whole app in mid-reply: the prompt is there, and at most the last half second of the reply is not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from desktop.store import Store

KILLS = int(os.environ.get("KILLS", "3"))
APP = """
import sys, time
from pathlib import Path
def main():
    from PySide6.QtCore import QCoreApplication, QTimer
    from desktop.conversation import Conversation
    from desktop.engine_client import EngineClient
    from desktop.settings import Settings
    from desktop.store import Store
    from tests.fakes import fake_engine
    app = QCoreApplication([])
    home = Path(sys.argv[1])
    client = EngineClient(fake_engine)
    talk = Conversation(Store(home / "chats.db"), Settings(home / "settings.json"), client)
    shown = 0
    def rounds(_, batch):
        nonlocal shown
        shown += sum(len(s.text) for r in batch for s in r.spans)
        print(time.time(), shown, flush=True)
    talk.rounds_arrived.connect(rounds)
    talk.model_loaded.connect(lambda _: (talk.send("the question"), print("asked", client.pid, flush=True)))
    talk.start()
    app.exec()
if __name__ == "__main__":
    main()
"""


def test_the_app_killed_at_any_moment(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(APP)
    rng = random.Random(KILLS)
    worst = 0.0
    for i in range(KILLS):
        home = tmp_path / str(i)
        environment = {**os.environ, "FAKE_TOKENS": "100000", "PYTHONPATH": os.getcwd()}
        process = subprocess.Popen(
            [sys.executable, str(script), str(home)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None
        engine = int(process.stdout.readline().split()[1])
        time.sleep(rng.uniform(0.1, 1.5))
        killed = time.time()
        os.kill(process.pid, signal.SIGKILL)
        shown = [(float(t), int(n)) for t, n in (line.split() for line in process.stdout.read().splitlines())]
        process.stdout.close()
        process.wait()
        store = Store(home / "chats.db")
        asked, reply = store.messages(store.chats()[0].id)
        assert asked.text == "the question"
        assert reply.state == "cut"
        lost_from = next((t for t, n in shown if n > len(reply.text)), killed)
        worst = max(worst, killed - lost_from)
        assert killed - lost_from < 0.5
        store.close()
        end = time.monotonic() + 5
        while time.monotonic() < end and Path(f"/proc/{engine}").exists():
            time.sleep(0.02)  # the engine sees the closed pipe and ends
        assert not Path(f"/proc/{engine}").exists() or sys.platform != "linux"
    print(f"at most {worst:.3f} s of text lost over {KILLS} kills")
