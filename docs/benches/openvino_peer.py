"""OpenVINO inside MONAI's sliding window, for the networks of `hearth bench infer`, and Hearth, in turn.

    python docs/benches/openvino_peer.py --hearth target/release/hearth --rounds 3 unet segresnet dynunet

Each side is a process of its own: the median of --runs after a warm-up, and the peak of resident memory. OpenVINO takes the network as
ONNX, in f32, tuned for latency. Volume, windows and overlap are those of `hearth bench infer`: 160 x 160 x 80 voxels, half overlap.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NETWORKS = {
    "unet": ("UNet", dict(spatial_dims=3, in_channels=1, out_channels=2, channels=(16, 32, 64, 128, 256), strides=(2, 2, 2, 2), num_res_units=2, norm="batch"), 96),
    "segresnet": ("SegResNet", dict(spatial_dims=3, blocks_down=(1, 2, 2, 4), blocks_up=(1, 1, 1), init_filters=16, in_channels=4, out_channels=3), 64),
    "dynunet": ("DynUNet", dict(spatial_dims=3, in_channels=1, out_channels=2, kernel_size=[3] * 5, strides=[1, 2, 2, 2, 2], upsample_kernel_size=[2] * 4, filters=(16, 32, 64, 128, 256)), 64),
}


def export(name, batch, file):
    """Writes the network as ONNX. In a process of its own: its memory is not OpenVINO's."""
    import torch
    from monai.networks import nets

    torch.manual_seed(0)
    kind, options, patch = NETWORKS[name]
    window = torch.zeros(batch, options["in_channels"], patch, patch, patch)
    with torch.no_grad():
        named = dict(input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
        torch.onnx.export(getattr(nets, kind)(**options).eval(), (window,), str(file), dynamo=False, **named)


def peer(args):
    import openvino
    import torch
    from monai.inferers import sliding_window_inference

    torch.set_num_threads(args.threads)
    _, options, patch = NETWORKS[args.networks[0]]
    settings = {"INFERENCE_NUM_THREADS": args.threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(args.onnx), "CPU", settings)
    x = torch.randn(1, options["in_channels"], 160, 160, 80)
    times = []
    for _ in range(args.runs + 1):
        start = time.perf_counter()
        sliding_window_inference(x, (patch,) * 3, args.sw_batch, lambda w: torch.from_numpy(model(w.numpy())[0]), overlap=0.5, mode="gaussian")
        times.append(time.perf_counter() - start)
    print(json.dumps({"peer": "openvino", "version": openvino.__version__, "net": args.networks[0], "seconds": statistics.median(times[1:])}))


def measured(command):
    """The JSON line that a command prints, and its peak of resident memory in MiB."""
    before = "import resource,subprocess,sys; p=subprocess.run(sys.argv[1:],stdout=subprocess.PIPE,text=True,check=True); print(p.stdout.strip().splitlines()[-1]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024)"
    line, mib = subprocess.run([sys.executable, "-c", before, *map(str, command)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-2:]
    return json.loads(line)["seconds"], float(mib)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", choices=list(NETWORKS))
    parser.add_argument("--hearth", type=Path, default="hearth", help="the program")
    parser.add_argument("--onnx", type=Path, help="OpenVINO alone, with this file")
    parser.add_argument("--export", action="store_true", help="only write the file of --onnx")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sw-batch", type=int, default=4)
    args = parser.parse_args()
    if args.export:
        return export(args.networks[0], args.sw_batch, args.onnx)
    if args.onnx:
        return peer(args)
    same = ["--threads", args.threads, "--runs", args.runs, "--sw-batch", args.sw_batch]
    for net in args.networks:
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            onnx = ["--onnx", Path(folder) / "net.onnx"]
            subprocess.run([sys.executable, "-W", "ignore", __file__, net, *onnx, "--export", "--sw-batch", str(args.sw_batch)], check=True, stdout=subprocess.DEVNULL)
            for _ in range(args.rounds):
                theirs.append(measured([sys.executable, __file__, net, *onnx, *same]))
                ours.append(measured([args.hearth, "bench", "infer", "--net", net, *same]))
        middle = [[statistics.median(column) for column in zip(*side)] for side in (theirs, ours)]
        (peer_s, peer_mib), (s, mib) = middle
        print(f"| {net} | {peer_s:.2f} s | {s:.2f} s | {peer_s / s:.2f} | {peer_mib:.0f} MiB | {mib:.0f} MiB |", flush=True)


main()
