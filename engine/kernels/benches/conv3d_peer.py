#!/usr/bin/env python3
"""The same convolutions in PyTorch, with as many threads: one line for each shape and direction, in GFLOP/s.

    python3 conv3d_peer.py [--threads 2]

Run in turn with `cargo bench -p hearth-kernels -p build-once --bench conv3d`, on the same machine.
"""
import argparse
import statistics
import time

import torch

# As in conv3d.rs: batch, channels in and out, edge of the input, kernel, stride.
LAYERS = [
    (4, 1, 16, 96, 3, 2),
    (4, 16, 16, 48, 3, 1),
    (4, 16, 32, 48, 3, 2),
    (4, 32, 32, 24, 3, 1),
    (4, 32, 64, 24, 3, 2),
    (4, 64, 64, 12, 3, 1),
    (4, 64, 128, 12, 3, 2),
    (4, 128, 128, 6, 3, 1),
    (4, 128, 256, 6, 3, 1),
    (4, 256, 256, 6, 3, 1),
    (4, 128, 256, 6, 1, 1),
    (4, 64, 384, 12, 3, 2),
    (4, 32, 128, 24, 3, 2),
    (4, 16, 64, 48, 3, 2),
    (4, 2, 32, 96, 3, 2),
    (4, 2, 2, 96, 3, 1),
    (4, 32, 32, 48, 3, 1),
    (4, 64, 64, 24, 3, 1),
    (4, 128, 128, 12, 3, 1),
    (1, 32, 32, 64, 5, 1),
    (1, 64, 64, 32, 5, 1),
    (1, 128, 128, 16, 5, 1),
]


def seconds(work, runs=10):
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    for batch, cin, cout, edge, kernel, stride in LAYERS:
        small = edge // stride
        x = torch.randn(batch, cin, edge, edge, edge)
        dy = torch.randn(batch, cout, small, small, small)
        w = torch.randn(cout, cin, kernel, kernel, kernel)
        sizes = {"stride": stride, "padding": kernel // 2}
        flops = 2 * batch * cin * cout * kernel**3 * small**3
        with torch.no_grad():
            directions = {
                "forward": lambda: torch.nn.functional.conv3d(x, w, **sizes),
                "input gradient": lambda: torch.nn.grad.conv3d_input(x.shape, w, dy, **sizes),
                "weight gradient": lambda: torch.nn.grad.conv3d_weight(x, w.shape, dy, **sizes),
            }
            for name, work in directions.items():
                rate = flops / seconds(work) * 1e-9
                print(f"{cin} to {cout} at {edge}, kernel {kernel}, stride {stride}/{name}: {rate:.1f} GFLOP/s", flush=True)


if __name__ == "__main__":
    main()
