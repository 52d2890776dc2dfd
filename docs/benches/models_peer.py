"""MONAI's side of docs/models.md: parameters and FLOPs, or forward and backward time and peak memory, of the networks that
`hearth models list --json` names.

    hearth models list --json > models.json
    python docs/benches/models_peer.py models.json --count
    python docs/benches/models_peer.py models.json --time UNet SegResNet

A JSON line per network. FLOPs are those of PyTorch's FlopCounterMode; every time is the median of --runs after a warm-up, each network
in a process of its own, so that the peak of resident memory is its own.
"""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from monai.networks import nets
from monai.networks.nets import swin_unetr


def build(entry):
    config = {key: value for key, value in entry["example"].items() if key != "name"}
    if entry["name"] == "NetAdapter":
        config["model"] = nets.ResNet(**config["model"])
        config["in_channels"] = 512
    if config.get("pool") == "":
        config["pool"] = None
    if entry["name"] in ("EfficientNetBN", "FlexibleUNet"):
        config["pretrained"] = False
    if entry["name"] == "DiNTS":
        space = {key: value for key, value in config["dints_space"].items() if key != "name"}
        space["arch_code"] = [np.array(code) for code in space["arch_code"]]
        config |= {"dints_space": nets.TopologyInstance(**space), "node_a": torch.tensor(config["node_a"])}
    return (getattr(nets, entry["name"], None) or getattr(swin_unetr, entry["name"]))(**config)


def shape(entry, net):
    """Images of two dimensions have no third axis there; the latent numbers of a generator have none at all."""
    full = entry["input"]
    if entry["name"] == "Generator":
        return [full[0], *entry["example"]["latent_shape"]]
    return full[:-1] if full[-1] == 1 else full


def inputs(entry, net):
    """A diffusion model also takes the time step of each item."""
    x = torch.rand(shape(entry, net))
    return (x, torch.zeros(len(x), dtype=torch.long)) if entry["name"] == "DiffusionModelUNet" else (x,)


def tensors(output):
    if isinstance(output, torch.Tensor):
        return [output]
    return [tensor for part in output if part is not None for tensor in tensors(part)]


def count(entry):
    from torch.utils.flop_counter import FlopCounterMode

    net = build(entry).eval()
    parameters = sum(p.numel() for p in net.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        outputs = tensors(net(*inputs(entry, net)))
    return {"parameters": parameters, "flops": counter.get_total_flops(), "outputs": [list(y.shape) for y in outputs]}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(entry, runs):
    net = build(entry).train()
    x = inputs(entry, net)
    before = peak()
    forward, backward = [], []
    for turn in range(runs + 1):
        net.zero_grad(set_to_none=True)
        start = time.perf_counter()
        loss = sum(y.float().square().mean() for y in tensors(net(*x)))
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        if turn > 0:
            forward.append(middle - start)
            backward.append(end - middle)
    return {
        "forward": statistics.median(forward),
        "backward": statistics.median(backward),
        "base": before,
        "peak": peak(),
        "threads": torch.get_num_threads(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    with open(args.models) as file:
        entries = [entry for entry in json.load(file) if not args.names or entry["name"] in args.names]
    for entry in entries:
        if args.time and not args.here:
            command = [sys.executable, __file__, args.models, entry["name"], "--time", "--here", "--runs", str(args.runs)]
            subprocess.run(command, check=False)
            continue
        line = {"peer": "monai", "bench": "models", "name": entry["name"], "input": entry["input"]}
        line |= count(entry) if args.count else measure(entry, args.runs)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
