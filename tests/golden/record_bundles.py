"""Records bundles of MONAI's model zoo, run by MONAI itself, into tests/golden/bundles.

    python tests/golden/record_bundles.py ZOO [NAME ...]

ZOO is a folder of bundles as their authors publish them, scripts included (Project-MONAI/model-zoo, `models`). A
case is the bundle's configs, a second config of ours that makes it small, images that are drawn here, weights by the
rule of the other cases (a formula of key and index), and what MONAI's runner made of them. Scripts are used here and
not stored.
"""
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import nibabel
import numpy as np
import torch
from monai.bundle import ConfigWorkflow
from PIL import Image
from safetensors.numpy import save_file

FOLDER = Path(os.environ.get("RECORD_TO", Path(__file__).parent / "bundles"))
WRAP = (1 << 64) - 1


def uniform(name, count):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & WRAP
    with np.errstate(over="ignore"):
        z = np.uint64(value) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0


def rule(network, own):
    """a and b of each weight, and the weights themselves; `own` has those of a case by key."""
    entries, weights = [], {}
    norms = {f"{name}." for name, module in network.named_modules() if "Norm" in type(module).__name__}
    state = network.state_dict()
    # A weight of several names has the values of the last one, which PyTorch loads last.
    last_name = {value.data_ptr(): key for key, value in state.items() if value.numel()}
    for key, value in state.items():
        shape, last = list(value.shape), key.rsplit(".", 1)[-1]
        prefix = key[: len(key) - len(last)]
        if key in own:
            a, b = own[key]
        elif last == "num_batches_tracked":
            a, b = 1.0, 0.0
        elif last == "running_var":
            a, b = 1.0, 0.5
        elif last == "weight" and (prefix in norms or value.numel() == 1):
            a, b = (1.0, 0.1) if prefix in norms else (0.25, 0.05)
        elif last == "weight":
            a, b = 0.0, round(2.4 / max(1, int(np.prod(shape[1:]))) ** 0.5, 5)
        else:
            a, b = 0.0, 0.1
        kind = "int64" if value.dtype == torch.int64 else "float32"
        entry = {"name": key, "shape": shape, "type": kind, "a": a, "b": b}
        of = last_name.get(value.data_ptr(), key)
        if of != key:
            entry["as"] = of
        entries.append(entry)
        made = (a + b * uniform(of, value.numel())).reshape(shape)
        weights[key] = torch.from_numpy(made.astype(kind)).to(value.dtype)
    return entries, weights


class Recorder:
    """An inferer, and what went in and came out."""

    def __init__(self, inferer):
        self.inferer, self.seen = inferer, []

    def __call__(self, inputs, network, *args, **kwargs):
        outputs = self.inferer(inputs, network, *args, **kwargs)
        self.seen.extend(zip(plain(inputs), plain(outputs)))
        return outputs


def plain(tensor):
    return np.array(torch.as_tensor(tensor).detach().cpu().as_subclass(torch.Tensor).float())


def voxels(shape, most=1500):
    """Some places of a grid, sorted."""
    count = int(np.prod(shape))
    chosen = sorted(random.Random(0).sample(range(count), min(count, most)))
    return np.stack(np.unravel_index(chosen, shape), 1).astype(np.int32)


def stored(tensors, place, image, pred):
    small = 20000
    if image.size <= small:
        tensors[f"{place}.image"] = image
    if pred.size <= small:
        tensors[f"{place}.pred"] = pred
    for name, array in (("image", image), ("pred", pred)):
        if array.size > small:
            at = voxels(array.shape[1:])
            tensors[f"{place}.at"] = at
            tensors[f"{place}.{name}_at"] = np.ascontiguousarray(array[(slice(None), *at.T)])
            if name == "pred" and pred.shape[0] > 1:
                tensors[f"{place}.pred_argmax"] = pred.argmax(0).astype(np.uint8)


def volume(path, shape, spacing, low, high, seed, dtype=np.int16):
    """A smooth volume, right to left and front to back as scanners store it."""
    grids = np.meshgrid(*[np.linspace(0, 3 + seed, n) for n in shape], indexing="ij")
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, shape)
    values = sum(np.sin(grid * (axis + 1)) for axis, grid in enumerate(grids)) / len(shape) + noise
    values = low + (values - values.min()) / np.ptp(values) * (high - low)
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    affine[:3, 3] = 11.5, 20.25, -30.0
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values.astype(dtype), affine), path)


def pancreas(folder):
    volume(folder / "input/ct.nii.gz", (34, 30, 20), (1.25, 1.25, 2.0), -200, 300, 1)
    (folder / "configs/dataset_0.json").write_text(json.dumps({"testing": [{"image": "./ct.nii.gz"}]}))
    # The lowest resolution has no values after the first block: no path leads there, and none from there.
    nodes, code = np.ones((4, 4)), np.ones((3, 10))
    nodes[1, 3] = 0
    code[0, [1, 8, 9]] = code[1, [3, 7, 9]] = code[2, [4]] = 0
    operations = np.random.default_rng(5).integers(0, 5, (3, 10))
    content = {"node_a": nodes, "arch_code_a": code, "arch_code_c": operations, "iter_num": 18590}
    (folder / "models").mkdir(exist_ok=True)
    torch.save(content, folder / "models/search_code_18590.pt")


def picture(path, size, channels, seed):
    """A picture of blobs; the first axis is the width."""
    x, y = np.meshgrid(*[np.linspace(0, 4, n) for n in size], indexing="ij")
    noise = np.random.default_rng(seed).uniform(-20, 20, (*size, channels))
    waves = np.stack([np.sin(x + seed) * np.cos(y * (channel + 1)) for channel in range(channels)], -1)
    values = 128 + 90 * waves
    values = np.clip(values + noise, 0, 255).astype(np.uint8).swapaxes(0, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values if channels > 1 else values[..., 0]).save(path)


def nuclei(folder):
    for seed, name in enumerate(("one", "two")):
        picture(folder / f"input/Test/Images/{name}.png", (64, 48), 3, seed)
        label = np.zeros((48, 64), np.uint8)
        label[18 : 30 + seed, 20:41] = 3
        path = folder / f"input/Test/Labels/{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(label).save(path)


def spleen(folder):
    volume(folder / "input/one.nii.gz", (26, 22, 15), (1.5, 1.5, 3.0), -250, 350, 2)
    volume(folder / "input/two.nii.gz", (20, 24, 18), (1.25, 1.5, 2.0), -200, 300, 3, np.float32)


def mammograms(folder):
    names = [f"sample_data/{group}/sample_{group}1.png" for group in "ABD"]
    for seed, name in enumerate(names):
        picture(folder / name, (60 + 9 * seed, 84 - 5 * seed), 3, seed)
    cases = [{"image": name, "label": [int(place == seed) for place in range(4)]} for seed, name in enumerate(names)]
    (folder / "configs/sample_image_data.json").write_text(json.dumps({"Test": cases}))


def heart(folder):
    """Slices of the heart over time, as X, Y, 1 and T."""
    for seed, frames in ((1, 3), (2, 2)):
        path = folder / f"input/cine_{seed}.nii.gz"
        volume(path, (64, 64, frames), (1.5, 1.5, 1.0), 0, 900, seed)
        image = nibabel.load(path)
        values = np.asarray(image.dataobj)[:, :, None]
        nibabel.save(nibabel.Nifti1Image(values, image.affine), path)


def ventricles(folder):
    volume(folder / "input/short_axis.nii.gz", (40, 34, 3), (1.5, 1.5, 8.0), 0, 900, 4)


def hands(folder):
    for seed in range(5):
        picture(folder / f"input/{seed:06}.png", (32, 32), 1, seed)


# Per bundle: the config, the id that runs, a second config, what makes the inputs, whose weights are not by the rule.
CASES = {
    "pancreas_ct_dints_segmentation": {
        "config": "inference.yaml",
        "overlay": {
            "dataset_dir": "input",
            "dints_space::channel_mul": 0.25,
            "dints_space::num_blocks": 3,
            "dints_space::device": "$torch.device('cpu')",
            "arch_ckpt": "$torch.load(@arch_ckpt_path, map_location=torch.device('cpu'), weights_only=False)",
            "inferer::roi_size": [32, 32, 32],
            "inferer::overlap": 0.25,
            "dataloader::num_workers": 0,
        },
        "inputs": pancreas,
    },
    "pathology_nuclei_classification": {
        "config": "inference.json",
        "overlay": {
            "dataset_dir": "input",
            "images": "$list(sorted(glob.glob(@dataset_dir + '/Test/Images/*.png')))",
            "labels": "$list(sorted(glob.glob(@dataset_dir + '/Test/Labels/*.png')))",
            "dataloader::num_workers": 0,
        },
        "inputs": nuclei,
    },
    "breast_density_classification": {
        "config": "inference.json",
        "run_id": "evaluating",
        "overlay": {
            # What torchvision does with the network whose weights it would download.
            "network_def::pretrained": False,
            "network_def::transform_input": True,
            "preprocessing::transforms::3::spatial_size": [90, 83],
            "dataset::num_workers": 0,
            "dataloader::num_workers": 0,
        },
        "inputs": mammograms,
    },
    "spleen_deepedit_annotation": {
        "config": "inference.json",
        "overlay": {
            "dataset::data": [
                {"image": "input/one.nii.gz", "spleen": [[6, 7, 4], [20, 3, 11], [25, 21, 14]], "background": [[1, 1, 9]]},
                {"image": "input/two.nii.gz", "background": [[-3, 5, 5], [10, 12, 9]]},
            ],
            # ITK gives the same values and affine.
            "preprocessing_transforms::0::reader": "NibabelReader",
            "spatial_size": [24, 32, 16],
            "network_def::kernel_size": [3, 3, 3, 3],
            "network_def::strides": [1, 2, 2, [2, 2, 1]],
            "network_def::upsample_kernel_size": [2, 2, [2, 2, 1]],
            "network_def::filters": [4, 8, 16, 24],
            "dataloader::num_workers": 0,
        },
        "inputs": spleen,
    },
    "mednist_reg": {
        "config": "inference.yaml",
        "run_id": "eval",
        "overlay": {
            "datalist": "$list(sorted(glob.glob('input/*.png')))",
            "cross_subjects": True,
            "image_aug::0::spatial_size": [32, 32],
            "network_def::image_size": [32, 32],
        },
        # Within the image, and a little different for each pair.
        "weights": {"affine_head.fc.weight": (0.0, 0.003), "affine_head.fc.bias": (0.35, 0.25)},
        "inputs": hands,
    },
    "valve_landmarks": {
        "config": "inference.json",
        "run_id": "evaluating",
        "overlay": {
            "dataset_dir": "input",
            "network_def::in_shape": [1, 64, 64],
            "network_def::channels": [4, 9, 16, 24],
            "network_def::strides": [2, 2, 2, 2],
        },
        "inputs": heart,
    },
    "ventricular_short_axis_3label": {
        "config": "inference.json",
        "run_id": "evaluating",
        "overlay": {
            "dataset_dir": "input",
            "network_def::channels": [4, 8, 16, 24, 32],
            "inferer::roi_size": [48, 32],
        },
        "inputs": ventricles,
    },
}


def record(zoo, name):
    case = CASES[name]
    home = Path.cwd()
    torch.manual_seed(0)
    target = FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    (target / "configs").mkdir(parents=True)
    for file in (case["config"], "metadata.json"):
        shutil.copyfile(zoo / name / "configs" / file, target / "configs" / file)
    shutil.copyfile(zoo / name / "LICENSE", target / "LICENSE")
    overlay = json.dumps(case["overlay"], indent=1)
    (target / "configs/replay.json").write_text(overlay)
    case["inputs"](target)
    configs = [f"configs/{case['config']}", "configs/replay.json"]
    run_id = case.get("run_id", "run")
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / name
        shutil.copytree(target, work)
        if (zoo / name / "scripts").is_dir():
            shutil.copytree(zoo / name / "scripts", work / "scripts")
        os.chdir(work)
        sys.path.insert(0, str(work))
        try:
            workflow = ConfigWorkflow(
                config_file=configs, workflow_type="inference", run_id=run_id, logging_file=False
            )
            network = workflow.parser.get_parsed_content("network_def")
            entries, weights = rule(network, case.get("weights", {}))
            model = case.get("model", "models/model.pt")
            Path(model).parent.mkdir(exist_ok=True)
            torch.save(weights, model)
            workflow.initialize()
            evaluator = workflow.parser.get_parsed_content("evaluator")
            recorder = evaluator.inferer = Recorder(evaluator.inferer)
            before = {path for path in work.rglob("*") if path.is_file()}
            workflow.run()
            saved = sorted(path for path in work.rglob("*") if path.is_file() and path not in before)
            saved = [path for path in saved if "__pycache__" not in path.parts]
            for path in saved:
                copy = target / "expected" / path.relative_to(work)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            saved = [str(path.relative_to(work)) for path in saved]
        finally:
            os.chdir(home)
            sys.path.remove(str(work))
            for module in [module for module in sys.modules if module.split(".")[0] == "scripts"]:
                del sys.modules[module]
    tensors, facts = {}, []
    for place, (image, pred) in enumerate(recorder.seen):
        stored(tensors, place, image, pred)
        spread = {
            "image": list(image.shape),
            "pred": list(pred.shape),
            "image_range": [float(image.min()), float(image.max())],
            "pred_range": [float(pred.min()), float(pred.max())],
        }
        facts.append(spread)
    (target / "expected").mkdir(exist_ok=True)
    save_file(tensors, target / "expected/tensors.safetensors")
    text = "value = f32(a + b * u(name, index)), as in the other cases"
    (target / "weights.json").write_text(json.dumps({"rule": text, "file": model, "entries": entries}))
    about = {"bundle": name, "configs": configs, "run_id": run_id, "cases": facts, "saved": saved, "metrics": {}}
    (target / "case.json").write_text(json.dumps(about, indent=1))
    print(name, len(facts), "cases", facts[0], saved)


if __name__ == "__main__":
    zoo, names = Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    for name in names:
        record(zoo, name)
