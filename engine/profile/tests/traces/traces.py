"""Records torch-cpu.pt.trace.json.gz with torch.profiler, and writes what `summarize` must find in it.

    python traces.py        # needs torch; on a CPU
"""

import gzip
import json
import pathlib

import torch
from torch.profiler import ProfilerActivity, profile, schedule

here = pathlib.Path(__file__).parent


def record():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv3d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv3d(4, 2, 3, padding=1))
    optimizer = torch.optim.AdamW(network.parameters())
    data = torch.utils.data.TensorDataset(torch.rand(8, 1, 12, 12, 12), torch.randint(0, 2, (8, 12, 12, 12)))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    path = here / "torch-cpu.pt.trace.json"
    ready = lambda recorder: recorder.export_chrome_trace(str(path))
    plan = schedule(wait=0, warmup=0, active=4, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready) as recorder:
        for image, label in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(image), label)
            loss.backward()
            optimizer.step()
            recorder.step()
    trace = json.loads(path.read_text())
    path.unlink()
    # Without what names this machine.
    trace = {"traceEvents": [event for event in trace["traceEvents"] if event.get("ph") == "X"]}
    for event in trace["traceEvents"]:
        event["args"] = {key: event["args"][key] for key in ("External id", "Sequence number") if key in event.get("args", {})}
    with gzip.GzipFile(here / "torch-cpu.pt.trace.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(trace).encode())


def figures():
    with gzip.open(here / "torch-cpu.pt.trace.json.gz") as file:
        events = json.load(file)["traceEvents"]
    steps = sorted((e for e in events if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
    loads = sorted((e for e in events if e["name"].startswith("enumerate(DataLoader)#")), key=lambda e: e["ts"])
    result = {"first_load": loads[0]["dur"] * 1e-6, "steps": []}
    for step in steps:
        start, end = step["ts"], step["ts"] + step["dur"]
        inside = [e for e in events if start <= e["ts"] < end]
        load = [e for e in loads[1:] if e in inside]
        backward = [e for e in inside if e["name"].startswith("autograd::engine::evaluate_function")]
        first = min(e["ts"] for e in backward)
        loaded = max([e["ts"] + e["dur"] for e in load if e["ts"] + e["dur"] < first], default=0)
        forward = [e for e in inside if e.get("cat") == "cpu_op" and e["tid"] == step["tid"] and loaded <= e["ts"] < first
                   and not e["name"].startswith("Optimizer.")]
        whole = lambda list: (max(e["ts"] + e["dur"] for e in list) - min(e["ts"] for e in list)) * 1e-6
        result["steps"].append({"load": sum(e["dur"] for e in load) * 1e-6 if load else None, "forward": whole(forward),
                                "backward": whole(backward), "step": step["dur"] * 1e-6})
    (here / "torch-cpu.expected.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    record()
    figures()
