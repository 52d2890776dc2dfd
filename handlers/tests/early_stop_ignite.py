"""Writes early_stop_ignite.json: when ignite's EarlyStopping ends a run, for many sequences of scores.

    pip install torch pytorch-ignite
    python early_stop_ignite.py
"""

import json
import logging
import random
from pathlib import Path

import ignite
from ignite.engine import Engine
from ignite.handlers import EarlyStopping

logging.disable(logging.CRITICAL)
rng = random.Random(3)
cases = []
for number in range(80):
    scores = [round(rng.uniform(0, 1) if number % 2 else 0.5 + 0.05 * i + rng.uniform(-0.1, 0.1), 3) for i in range(12)]
    patience, delta = rng.randint(1, 4), rng.choice([0.0, 0.05, 0.2])
    cumulative, mode = rng.random() < 0.5, rng.choice(["min", "max"])
    trainer = Engine(lambda engine, batch: None)
    feed = iter(scores)
    stop = EarlyStopping(patience, lambda _: next(feed), trainer, threshold=delta, cumulative=cumulative, mode=mode)
    stopped = None
    for epoch in range(1, len(scores) + 1):
        stop(trainer)
        if trainer.should_terminate:
            stopped = epoch
            break
    cases.append({"scores": scores, "patience": patience, "min_delta": delta, "cumulative_delta": cumulative,
                  "better": "higher" if mode == "max" else "lower", "stopped": stopped})
lines = ",\n".join(json.dumps(c) for c in cases)
Path(__file__).with_name("early_stop_ignite.json").write_text(f'{{"ignite": "{ignite.__version__}", "cases": [\n{lines}\n]}}\n')
print(sum(c["stopped"] is not None for c in cases), "of", len(cases), "stopped")
