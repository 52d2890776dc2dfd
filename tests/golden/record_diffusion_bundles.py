"""Records the bundles of latent diffusion, run by MONAI itself, into tests/golden/bundles.

    python tests/golden/record_diffusion_bundles.py ZOO [CASE ...]

ZOO is as for record_bundles.py. Networks are small, weights are by the rule of the other cases, and noise lies beside
the config as a file, so that another program can start from the same. Each step of the denoising is recorded. The
second bundle's weights have the keys of MONAI Generative. Latent images of the autoencoders' cases are those of the
mean: the deviation's last layer gives exp(-15).
"""
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from monai.bundle import run
from monai.networks.nets import AutoencoderKL
from monai.networks.schedulers import DDIMScheduler
from record_bundles import FOLDER, uniform, volume
from safetensors.numpy import save_file

TINY_3D = {
    "autoencoder_def": {"channels": [8, 8, 16], "num_res_blocks": 1, "norm_num_groups": 4},
    "network_def": {"channels": [8, 16, 16], "num_res_blocks": 1, "norm_num_groups": 4, "num_head_channels": [0, 8, 4]},
}
TINY_2D = {
    "autoencoder_def": {"channels": [8, 8, 16], "num_res_blocks": 1, "norm_num_groups": 4},
    "network_def": {
        "channels": [8, 8, 16, 16], "num_res_blocks": 1, "norm_num_groups": 4, "num_head_channels": [0, 4, 8, 16],
    },
}
DATA = {"dataset_dir": "data", "dataset::num_workers": 0, "dataloader::shuffle": False}
CASES = {
    "brats_mri_generative_diffusion": {
        "config": "inference.json",
        "tiny": TINY_3D,
        "overlay": {"latent_channels": 4, "latent_shape": [4, 4, 8, 4], "output_postfix": "sample"},
        "steps": 4,
        "old": False,
    },
    "brats_mri_axial_slices_generative_diffusion": {
        "config": "inference.json",
        "tiny": TINY_2D,
        "overlay": {"latent_shape": ["@latent_channels", 16, 24], "output_postfix": "sample"},
        "steps": 5,
        "old": True,
    },
    "brats_mri_generative_diffusion-autoencoder": {
        "config": "inference_autoencoder.json",
        "tiny": TINY_3D,
        "overlay": {**DATA, "latent_channels": 4, "infer_patch_size": [16, 20, 12], "channel": 2},
        "volume": ((22, 26, 18, 4), (1.0, 1.0, 1.0)),
        "old": True,
    },
    "brats_mri_axial_slices_generative_diffusion-autoencoder": {
        "config": "inference_autoencoder.json",
        "tiny": TINY_2D,
        "overlay": {**DATA, "infer_patch_size": [24, 20], "channel": 1, "output_postfix": "slice"},
        "volume": ((23, 21, 1, 2), (1.0, 1.0, 2.0)),
        "old": False,
    },
}


def older(key):
    """The key that a weight had in MONAI Generative."""
    for part in ("to_q", "to_k", "to_v"):
        key = key.replace(f".attn.{part}.", f".{part}.")
    return key.replace(".attn.out_proj.", ".proj_attn.").replace("postconv", "conv")


def rule(network, file, old, sharp):
    """The rule of a network's weights, and a file of them."""
    entries = []
    for key, value in network.state_dict().items():
        shape = list(value.shape)
        fan_in = int(np.prod(shape[1:]))
        if len(shape) > 1:
            a, b = 0.0, round(1.7 / fan_in**0.5, 5)
        else:
            a, b = (1.0, 0.1) if key.endswith("weight") else (0.0, 0.1)
        if sharp and key.startswith("quant_conv_log_sigma"):
            a, b = (-30.0 if key.endswith("bias") else 0.0), 0.0
        entries.append({"name": older(key) if old else key, "shape": shape, "type": "float32", "a": a, "b": b})
    if old and any(".proj_attn." not in e["name"] and ".to_q." in e["name"] for e in entries):
        # Files of MONAI Generative have projections that networks without `include_fc` lack.
        for entry in [e for e in entries if e["name"].endswith((".to_q.weight", ".to_q.bias"))]:
            name = entry["name"].replace(".to_q.", ".proj_attn.")
            if not any(e["name"] == name for e in entries):
                entries.append({**entry, "name": name})
    weights = {e["name"]: (e["a"] + e["b"] * uniform(e["name"], int(np.prod(e["shape"])))) for e in entries}
    weights = {e["name"]: torch.from_numpy(weights[e["name"]].reshape(e["shape"]).astype(np.float32)) for e in entries}
    return {"file": file, "entries": entries}, weights


def decathlon(folder, shape, spacing):
    """A data set of ten cases, of which the first that validates is there."""
    task = folder / "data/Task01_BrainTumour"
    order = np.arange(10)
    np.random.RandomState(0).shuffle(order)
    names = [f"imagesTr/BRATS_{place:03}.nii.gz" for place in range(10)]
    volume(task / names[order[0]], shape, spacing, 0, 900, 3)
    training = [{"image": f"./{name}", "label": f"./{name.replace('images', 'labels')}"} for name in names]
    content = {"name": "BRATS", "training": training, "test": [], "labels": {}, "modality": {}, "numTraining": 10}
    content |= {"description": "", "reference": "", "licence": "", "tensorImageSize": "4D", "numTest": 0}
    (task / "dataset.json").write_text(json.dumps(content))


def record(zoo, name):
    case = CASES[name]
    bundle, samples = name.split("-")[0], "steps" in case
    source, target = zoo / bundle, FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    (target / "configs").mkdir(parents=True)
    for file in (f"configs/{case['config']}", "configs/metadata.json", "LICENSE"):
        shutil.copyfile(source / file, target / file)
    overlay = {f"{net}::{key}": value for net, options in case["tiny"].items() for key, value in options.items()}
    overlay |= case["overlay"] | {"device": "$torch.device('cpu')"}
    if not samples:
        overlay = {key: value for key, value in overlay.items() if not key.startswith("network_def")}
    else:
        overlay["noise"] = "$torch.from_numpy(np.load('noise.npy'))"
        overlay["set_timesteps"] = f"$@noise_scheduler.set_timesteps(num_inference_steps={case['steps']})"
        latent = [case["overlay"].get("latent_channels", 1), *case["overlay"]["latent_shape"][1:]]
        noise = np.random.default_rng(11).standard_normal([1, *latent]).astype(np.float32)
        np.save(target / "noise.npy", noise)
    (target / "configs/replay.json").write_text(json.dumps(overlay, indent=1) + "\n")
    if "volume" in case:
        decathlon(target, *case["volume"])
    seen, latents = [], []
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        shutil.copytree(target, work, dirs_exist_ok=True)
        shutil.copytree(source / "scripts", work / "scripts")
        (work / "models").mkdir()
        files = {"autoencoder": "models/model_autoencoder.pt"} | ({"network": "models/model.pt"} if samples else {})
        config = json.loads((work / "configs" / case["config"]).read_text())
        for net, file in files.items():
            options = {k: v for k, v in config[f"{net}_def"].items() if k != "_target_"} | case["tiny"][f"{net}_def"]
            resolved = {"@spatial_dims": config["spatial_dims"], "@image_channels": 1}
            resolved["@latent_channels"] = case["overlay"].get("latent_channels", config["latent_channels"])
            options = {k: resolved.get(v, v) if isinstance(v, str) else v for k, v in options.items()}
            kind = AutoencoderKL
            if net == "network":
                from monai.networks.nets import DiffusionModelUNet as kind
            rules, weights = rule(kind(**options), file, case["old"], not samples)
            ending = "" if net == "network" else "_autoencoder"
            (target / f"weights{ending}.json").write_text(json.dumps(rules) + "\n")
            torch.save(weights, work / file)
        step, decode, forward = DDIMScheduler.step, AutoencoderKL.decode, AutoencoderKL.forward

        def recorded_step(self, output, t, image):
            made = step(self, output, t, image)
            latents.append(made[0].detach().numpy().copy())
            return made

        def recorded_decode(self, z):
            made = decode(self, z)
            if samples:
                seen.append((np.load("noise.npy")[0], plain(made)[0]))
            return made

        def recorded_forward(self, x):
            with torch.no_grad():
                made = forward(self, x)
            seen.append((plain(x)[0], plain(made[0])[0]))
            return made

        DDIMScheduler.step, AutoencoderKL.decode = recorded_step, recorded_decode
        AutoencoderKL.forward = recorded_forward
        here = os.getcwd()
        os.chdir(work)
        for module in [module for module in sys.modules if module.split(".")[0] == "scripts"]:
            del sys.modules[module]
        sys.path.insert(0, str(work))
        before = {str(p.relative_to(work)) for p in work.rglob("*") if p.is_file()}
        try:
            run(config_file=[f"configs/{case['config']}", "configs/replay.json"], bundle_root=str(work))
        finally:
            os.chdir(here)
            sys.path.remove(str(work))
            DDIMScheduler.step, AutoencoderKL.decode, AutoencoderKL.forward = step, decode, forward
        made = {str(p.relative_to(work)) for p in work.rglob("*") if p.is_file() and "__pycache__" not in str(p)}
        saved = sorted(made - before)
        tensors = {f"latent.{place}": latent for place, latent in enumerate(latents)}
        for place, (image, pred) in enumerate(seen):
            tensors |= {f"{place}.image": np.ascontiguousarray(image), f"{place}.pred": np.ascontiguousarray(pred)}
        (target / "expected").mkdir()
        save_file({key: np.ascontiguousarray(value, np.float32) for key, value in tensors.items()}, target / "expected/tensors.safetensors")
        for file in saved:
            (target / "expected" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(work / file, target / "expected" / file)
    ranges = [{f"{n}_range": [float(v.min()), float(v.max())] for n, v in (("image", i), ("pred", p))} for i, p in seen]
    facts = {"bundle": bundle, "configs": [f"configs/{case['config']}", "configs/replay.json"], "run_id": "run"}
    facts |= {"licence": "Apache-2.0", "cases": ranges, "saved": saved, "metrics": {}}
    (target / "case.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(name, [(i.shape, p.shape) for i, p in seen], ranges, saved, [float(np.abs(x).max()) for x in latents])


def plain(tensor):
    return np.array(torch.as_tensor(tensor).detach().cpu().as_subclass(torch.Tensor).float())


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        record(Path(sys.argv[1]), name)
