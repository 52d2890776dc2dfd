"""What `torch.profiler` costs on MONAI's UNet of the recipe `spleen-regular`: the step without it and with
it, the size of its trace, and the time until the trace and the table are written.

    python profile_peer.py [--threads 2] [--steps 20]
"""

import argparse
import gzip
import os
import shutil
import tempfile
import time

import torch
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from torch.profiler import ProfilerActivity, profile, record_function, schedule

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--side", type=int, default=48)
given = parser.parse_args()
torch.set_num_threads(given.threads)
torch.manual_seed(0)

network = UNet(3, 1, 2, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2, norm="batch")
loss_of = DiceLoss(to_onehot_y=True, softmax=True)
optimizer = torch.optim.Adam(network.parameters(), 2e-4)
image = torch.rand(8, 1, *[given.side] * 3)
label = (image > 0.5).float()


def step():
    with record_function("forward"):
        pred = network(image)
    with record_function("loss"):
        loss = loss_of(pred, label)
    optimizer.zero_grad()
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
    return loss.item()


def timed():
    times = []
    for _ in range(given.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


step()
folder = tempfile.mkdtemp()
trace = os.path.join(folder, "trace.json")
plain = timed()
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=0, warmup=1, active=given.steps),
    record_shapes=True,
    profile_memory=True,
    with_flops=True,
) as profiler:
    profiler.step()
    measured = timed()
start = time.perf_counter()
profiler.export_chrome_trace(trace)
with open(trace, "rb") as plain_file, gzip.open(trace + ".gz", "wb") as packed:
    shutil.copyfileobj(plain_file, packed)
table = profiler.key_averages().table(sort_by="cpu_time_total", row_limit=1000)
answer = time.perf_counter() - start
size = os.path.getsize(trace + ".gz")
print(f"step {plain * 1e3:.1f} ms, with the profiler {measured * 1e3:.1f} ms ({(measured / plain - 1) * 100:+.1f} %)")
print(f"trace {size / 1e6:.2f} MB gzipped for {given.steps} steps; trace and table after {answer:.2f} s")
shutil.rmtree(folder)
