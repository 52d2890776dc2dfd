"""Writes ignite_traces.json: what pytorch-ignite's Engine fires in many scenarios.

    pip install torch pytorch-ignite
    python ignite_traces.py

Left out on purpose, because Hearth decides otherwise (each has its own test): exceptions, an interrupt at
DATALOADER_STOP_ITERATION (ignite then repeats GET_BATCH_STARTED), requests made inside INTERRUPT handlers, and going on
with a raised max_epochs after an abandoned epoch (ignite shortens the next epoch by `iteration % epoch_length`).
"""

import json
import logging
import random
import warnings
from pathlib import Path

import ignite
from ignite.engine import Engine, EventEnum, Events

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


class Inner(EventEnum):
    FORWARD_COMPLETED = "forward_completed"
    LOSS_COMPLETED = "loss_completed"
    BACKWARD_COMPLETED = "backward_completed"
    MODEL_COMPLETED = "model_completed"


CODES = {
    "S": Events.STARTED,
    "ES": Events.EPOCH_STARTED,
    "GS": Events.GET_BATCH_STARTED,
    "GC": Events.GET_BATCH_COMPLETED,
    "IS": Events.ITERATION_STARTED,
    "FC": Inner.FORWARD_COMPLETED,
    "LC": Inner.LOSS_COMPLETED,
    "BC": Inner.BACKWARD_COMPLETED,
    "MC": Inner.MODEL_COMPLETED,
    "IC": Events.ITERATION_COMPLETED,
    "EC": Events.EPOCH_COMPLETED,
    "C": Events.COMPLETED,
    "T": Events.TERMINATE,
    "TE": Events.TERMINATE_SINGLE_EPOCH,
    "I": Events.INTERRUPT,
    "D": Events.DATALOADER_STOP_ITERATION,
}


class Unsized:
    """A loader that does not know its length."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def play(name, batches, runs, known=True, epoch_length=None, actions=(), filters=()):
    """actions: (event code, n-th occurrence from 1, "terminate" | "terminate_epoch" | "interrupt")."""
    trace, calls, seen = [], [], {}

    def step(engine, batch):
        for event in Inner:
            engine.fire_event(event)

    engine = Engine(step)
    engine.register_events(*Inner)

    def listener(code):
        def listen(engine, *args, **kwargs):
            trace.append(f"{code} {engine.state.epoch} {engine.state.iteration}")
            seen[code] = seen.get(code, 0) + 1
            for event, nth, what in actions:
                if event == code and nth == seen[code]:
                    getattr(engine, what)()

        return listen

    for code, event in CODES.items():
        if code == "TE":
            listen = listener(code)
            engine.add_event_handler(event, lambda engine, iter_counter, listen=listen: listen(engine))
        else:
            engine.add_event_handler(event, listener(code))

    for index, (code, options) in enumerate(filters):
        def call(engine, code=code, index=index):
            calls.append(f"{index} {code} {engine.state.epoch} {engine.state.iteration}")

        engine.add_event_handler(CODES[code](**options), call)

    loader = list(range(batches)) if known else Unsized(batches)
    abandoned, played = False, []
    for max_epochs in runs:
        played.append(max_epochs)
        start = len(trace)
        try:
            engine.run(loader, max_epochs=max_epochs, epoch_length=epoch_length)
        except (RuntimeError, ValueError):
            trace.append("error")
            break
        trace.append("end")
        fired = [line.split()[0] for line in trace[start:]]
        terminated = "T" in fired
        abandoned |= terminated or "TE" in fired
        if abandoned and not terminated and "C" in fired:
            break
    return {
        "name": name,
        "batches": batches,
        "known": known,
        "epoch_length": epoch_length,
        "runs": played,
        "actions": [list(a) for a in actions],
        "filters": [[code, options] for code, options in filters],
        "trace": trace,
        "calls": calls,
    }


def scenarios():
    yield play("plain", 3, [2])
    yield play("one batch", 1, [3])
    yield play("loader shorter than the epoch", 2, [2], epoch_length=5)
    yield play("loader longer than the epoch", 5, [3], epoch_length=2)
    yield play("unknown length", 3, [3], known=False)
    yield play("unknown length, epoch longer", 2, [2], known=False, epoch_length=3)
    yield play("unknown length, no batch", 0, [2], known=False)
    yield play("epochs raised", 3, [2, 4])
    yield play("finished and asked again", 2, [2, 2])
    yield play("fewer epochs than run", 2, [3, 2])
    for code in CODES:
        if code not in ("T", "TE", "I", "D"):
            nth = 1 if code in ("S", "C") else 2
            yield play(f"terminate at {code}", 3, [3, 3], actions=[(code, nth, "terminate")])
            yield play(f"terminate_epoch at {code}", 3, [3], actions=[(code, nth, "terminate_epoch")])
            yield play(f"interrupt at {code}", 3, [3, 3], actions=[(code, nth, "interrupt")])
    yield play("terminate at D", 3, [3, 3], actions=[("D", 1, "terminate")])
    yield play("terminate_epoch at D", 3, [3], actions=[("D", 1, "terminate_epoch")])
    yield play("interrupt at the last iteration", 2, [1, 1], actions=[("IC", 2, "interrupt")])
    yield play("interrupt at the last epoch", 2, [2, 2], actions=[("EC", 2, "interrupt")])
    yield play("interrupt and more epochs", 2, [2, 3], actions=[("IC", 3, "interrupt")])
    yield play("all three at once", 3, [3, 3, 3], actions=[("IC", 2, w) for w in ("terminate", "terminate_epoch", "interrupt")])
    yield play("end of epoch and pause", 3, [3, 3], actions=[("IC", 2, "terminate_epoch"), ("IC", 2, "interrupt")])

    options = [
        {"every": 1}, {"every": 2}, {"every": 3}, {"once": 2}, {"once": [1, 4, 5]}, {"before": 4}, {"after": 3},
        {"after": 1, "before": 5}, {"every": 2, "before": 6}, {"every": 2, "after": 1, "before": 8}, {"every": 3, "after": 2},
        {"every": 1, "after": 2}, {"before": 2},
    ]
    for code in ("S", "ES", "GS", "GC", "IS", "IC", "EC", "C"):
        yield play(f"filters at {code}", 3, [6], filters=[(code, o) for o in options])

    rng = random.Random(7)
    for number in range(60):
        batches, known = rng.randint(1, 4), rng.random() < 0.7
        epoch_length = rng.choice([None, None, rng.randint(1, 6)])
        max_epochs, runs = rng.randint(1, 3), []
        for _ in range(5):
            runs.append(max_epochs)
            max_epochs += rng.random() < 0.3
        actions = []
        for _ in range(rng.randint(1, 4)):
            what = rng.choice(["terminate", "terminate_epoch", "interrupt", "interrupt"])
            banned = {"T", "I"} | ({"D"} if what == "interrupt" else set()) | ({"S", "ES"} if what == "terminate_epoch" else set())
            actions.append((rng.choice([c for c in CODES if c not in banned]), rng.randint(1, 5), what))
        yield play(f"random {number}", batches, runs, known, epoch_length, actions)


lines = ",\n".join(json.dumps(s, separators=(",", ":")) for s in scenarios())
out = Path(__file__).with_name("ignite_traces.json")
out.write_text(f'{{"ignite":"{ignite.__version__}","scenarios":[\n{lines}\n]}}\n')
