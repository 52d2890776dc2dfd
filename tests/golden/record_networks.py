"""Records cases of networks from MONAI into tests/golden/networks, in the format of the other cases.

    python tests/golden/record_networks.py [NAME ...]

Weights are a formula of key and index (`procedural`), so a file holds inputs and outputs only. Tolerances come from the same pass in
f64: what rounding changes, times 20.
"""
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from monai.networks import nets
from safetensors.numpy import save_file

FOLDER = Path(os.environ.get("RECORD_TO", Path(__file__).parent / "networks"))
WRAP = (1 << 64) - 1


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & WRAP
    return value


def draw(key, seed, count):
    with np.errstate(over="ignore"):
        start = np.uint64(fnv1a64(key) ^ seed)
        z = start + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return 2 * ((z >> np.uint64(40)).astype(np.float64) / 2**24) - 1


def formula(key, tensor):
    """Offset and scale of a tensor: about as large as in a trained network."""
    if key.endswith("running_var"):
        return 1.0, 0.3
    if tensor.dim() == 1:
        return (1.0, 0.2) if key.endswith("weight") else (0.0, 0.1)
    fan_in = tensor[0].numel()
    # Squeeze and excitation halves what a block of EfficientNet passes on, Swish does so again.
    gain = 1.6 if "_blocks." in key else 1.2
    # Without residual connections forty layers of ReLU would leave nothing of the input.
    gain = 1.45 if "features.Mixed" in key or "features.Conv2d" in key else gain
    return 0.0, round(gain * (3.0 / fan_in) ** 0.5, 6)


def fill(net, seed):
    tensors = {}
    state = net.state_dict()
    for key, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        offset, scale = formula(key, tensor)
        tensors[key] = {"shape": list(tensor.shape), "offset": offset, "scale": scale}
        values = offset + scale * draw(key, seed, tensor.numel())
        state[key] = torch.from_numpy(values.astype(np.float32)).reshape(tensor.shape)
    net.load_state_dict(state)
    return {"seed": seed, "tensors": tensors}


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def record(name, op, params, shape, build, call=None, run=None, gradients=True, few=6, notes=""):
    seed = fnv1a64(name) & 0xFFFFFFFF
    torch.manual_seed(seed)
    net = build()
    procedural = fill(net, seed)
    run = run or (lambda net, x: net(x))
    case = {
        "family": "networks",
        "case": name,
        "op": op,
        "params": params,
        "call": call or {},
        "notes": notes,
        "weights": "procedural",
        "procedural": procedural,
        "parameter_count": sum(p.numel() for p in net.parameters()),
    }

    def numbered(prefix, values):
        return {prefix if len(values) == 1 else f"{prefix}{i}": value for i, value in enumerate(values)}

    def passes(x, dtype):
        net.to(dtype)
        net.eval()
        with torch.no_grad():
            evaluated = outputs(run(net, x.to(dtype)))
        return [value.detach() for value in evaluated]

    def backward(x, cotangents, dtype):
        net.to(dtype)
        net.zero_grad(set_to_none=True)
        net.train()
        at = x.to(dtype).clone().requires_grad_(True)
        values = outputs(run(net, at))
        sum((value * cot.to(dtype)).mean() for value, cot in zip(values, cotangents)).backward()
        zero = lambda p: torch.zeros_like(p) if p.grad is None else p.grad
        return at.grad.detach(), {key: zero(p).detach().clone() for key, p in net.named_parameters()}

    norms = lambda gradients: np.array([float(value.norm()) for value in gradients.values()])

    def at_a_kink(x, cotangents, exact):
        """Whether rounding decides a gradient: an activation or a maximum so near to its kink that it can fall on either side."""
        with torch.random.fork_rng():
            near = [x.double() * (1 + 1e-6 * torch.randn(shape, dtype=torch.float64)) for _ in range(8)]
            others = [norms(backward(other, cotangents, torch.float64)[1]) for other in near]
            others.append(norms(backward(x, cotangents, torch.float32)[1]))
        exact = norms(exact)
        return any(np.any(np.abs(other - exact) > 1e-6 * np.max(exact) + 1e-4 * exact) for other in others)

    state = {key: value.clone() for key, value in net.state_dict().items()}
    for _ in range(20):
        # A pass in training moves running averages.
        net.float().load_state_dict(state)
        x = torch.randn(shape)
        exact, single = passes(x, torch.float64), passes(x, torch.float32)
        if not gradients:
            break
        cotangents = [torch.randn(value.shape) for value in single]
        exact_x, exact_gradients = backward(x, cotangents, torch.float64)
        if not at_a_kink(x, cotangents, exact_gradients):
            break
    else:
        raise ValueError(f"{name}: every input has activations at their kinks")
    largest = max(float(value.abs().max()) for value in exact)
    apart = max(float((a - b).abs().max()) for a, b in zip(exact, single))
    case["tolerance"] = {"atol": float(f"{max(20 * apart, 2e-6 * largest):.1g}"), "rtol": 1e-4}
    arrays = {"in.x": x} | numbered("out.y", single)
    if gradients:
        arrays |= numbered("in.cot", cotangents)
        single_x, single_gradients = backward(x, cotangents, torch.float32)
        case["train_y"] = "same as y"
        keys = list(single_gradients)
        chosen = sorted((key for key in keys if single_gradients[key].numel() <= 4096), key=lambda key: fnv1a64(key))[:few]
        arrays["grad.in.x"] = single_x
        arrays |= {f"grad.{key}": single_gradients[key] for key in chosen}
        arrays["out.grad_l2"] = norms(single_gradients)
        case["grad_l2_keys"] = keys
        relative = lambda a, b: max(1e-4, 20 * float((a - b).abs().max() / max(float(b.abs().max()), 1e-12)))
        round_up = lambda value: float(f"{value:.1g}")
        pairs = {"in.x": (single_x, exact_x)} | {key: (single_gradients[key], exact_gradients[key]) for key in chosen}
        case["tolerance"] |= {
            "grad_atol": round_up(1e-6 * float(np.max(norms(exact_gradients)))),
            "grad_max_rel": {key: round_up(relative(a, b)) for key, (a, b) in pairs.items()},
            "l2_atol": round_up(1e-5 * float(np.max(norms(exact_gradients)))),
            "l2_rtol": 1e-3,
        }
    else:
        case["eval_only"] = True
    numpy = lambda value: np.ascontiguousarray(value.numpy() if isinstance(value, torch.Tensor) else value)
    arrays = {key: numpy(value) for key, value in arrays.items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.safetensors"
    save_file(arrays, path, {"case": json.dumps(case, sort_keys=True)})
    with torch.no_grad():
        other = outputs(run(net.float().eval(), torch.randn(shape)))
    moved = max(float((a - b).abs().max()) for a, b in zip(single, other))
    allowed = case["tolerance"]["atol"]
    print(f"{name}: {path.stat().st_size} bytes, up to {largest:.3g}, {moved:.3g} apart for another input, {allowed} allowed")


def efficient(name, op, params, shape):
    cls = getattr(nets, op)
    record(name, op, params, shape, lambda: cls(**params, pretrained=False), gradients=False)


def dints(name, space, params, shape):
    def build():
        inner = dict(space)
        if "arch_code" in inner:
            inner["arch_code"] = [np.array(code) for code in inner["arch_code"]]
        own = dict(params)
        if "node_a" in own:
            own["node_a"] = torch.tensor(own["node_a"])
        return nets.DiNTS(dints_space=nets.TopologyInstance(**inner), **own)

    record(name, "DiNTS", params | {"dints_space": {"op": "TopologyInstance", "params": space}}, shape, build)


def autoencoder(name, params, shape):
    # Means are decoded, as in evaluation here: the draw of MONAI's forward pass is not that of another program.
    def run(net, x):
        mean, deviation = net.encode(x)
        return net.decode(mean), mean, deviation

    record(name, "AutoencoderKL", params, shape, lambda: nets.AutoencoderKL(**params), run=run)


def diffusion(name, params, shape, timesteps):
    record(
        name,
        "DiffusionModelUNet",
        params,
        shape,
        lambda: nets.DiffusionModelUNet(**params),
        call={"timesteps": timesteps},
        run=lambda net, x: net(x, timesteps=torch.tensor(timesteps)),
    )


def inception(name, params, shape):
    build = lambda: nets.TorchVisionFCModel(**params, init_weights=False)
    record(name, "TorchVisionFCModel", params, shape, build, gradients=False)


CODES = [
    # Blocks x paths of three resolutions: 0-0, 1-0, 0-1, 1-1, 2-1, 1-2, 2-2.
    [[1, 0, 1, 0, 0, 0, 1], [1, 1, 0, 1, 1, 1, 0], [1, 1, 1, 0, 1, 0, 1]],
    [[1, 0, 2, 0, 0, 0, 0], [0, 3, 0, 4, 1, 2, 0], [2, 1, 0, 0, 3, 0, 1]],
]
NODES = [[1, 0, 1], [1, 1, 1], [1, 1, 1], [1, 1, 0]]
FLAT = [[[1, 1, 1, 0], [1, 1, 0, 1]], [[1, 0, 1, 0], [1, 1, 0, 0]]]

CASES = {
    "efficientnet_b0_3d": lambda name: efficient(
        name, "EfficientNetBN", {"model_name": "efficientnet-b0", "spatial_dims": 3, "in_channels": 1, "num_classes": 3}, [1, 1, 33, 40, 32]
    ),
    "torchvision_inception_v3": lambda name: inception(
        name,
        {"model_name": "inception_v3", "num_classes": 4, "pool": None, "transform_input": True, "pretrained": False},
        [1, 3, 78, 83],
    ),
    "efficientnet_b2_2d_instance": lambda name: efficient(
        name,
        "EfficientNetBN",
        {"model_name": "efficientnet-b2", "num_classes": 5, "norm": ["instance", {"affine": True}]},
        [2, 3, 96, 81],
    ),
    "flexible_unet_b0_2d": lambda name: efficient(
        name, "FlexibleUNet", {"in_channels": 3, "out_channels": 2, "backbone": "efficientnet-b0"}, [2, 3, 64, 96]
    ),
    "flexible_unet_b2_2d_bilinear": lambda name: efficient(
        name,
        "FlexibleUNet",
        {
            "in_channels": 1,
            "out_channels": 3,
            "backbone": "efficientnet-b2",
            "decoder_channels": [48, 32, 24, 16, 8],
            "interp_mode": "bilinear",
            "decoder_bias": True,
            "act": ["leakyrelu", {"negative_slope": 0.2}],
            "norm": ["instance", {"affine": True}],
        },
        [1, 1, 66, 64],
    ),
    "flexible_unet_b1_2d_pixelshuffle": lambda name: efficient(
        name,
        "FlexibleUNet",
        {
            "in_channels": 2,
            "out_channels": 2,
            "backbone": "efficientnet-b1",
            "decoder_channels": [32, 16, 16, 8, 4],
            "upsample": "pixelshuffle",
            "is_pad": False,
        },
        [1, 2, 64, 32],
    ),
    "flexible_unet_b0_3d_deconv": lambda name: efficient(
        name,
        "FlexibleUNet",
        {
            "in_channels": 1,
            "out_channels": 1,
            "backbone": "efficientnet-b0",
            "spatial_dims": 3,
            "decoder_channels": [32, 16, 16, 8, 4],
            "upsample": "deconv",
        },
        [1, 1, 32, 32, 32],
    ),
    "dints_3d": lambda name: dints(
        name,
        {"arch_code": CODES, "channel_mul": 0.125, "num_blocks": 3, "num_depths": 3, "use_downsample": True},
        {"in_channels": 1, "num_classes": 3, "use_downsample": True, "node_a": NODES},
        [1, 1, 16, 24, 32],
    ),
    "dints_2d_full_size": lambda name: dints(
        name,
        {"arch_code": FLAT, "channel_mul": 0.25, "num_blocks": 2, "num_depths": 2, "spatial_dims": 2, "use_downsample": False},
        {"in_channels": 2, "num_classes": 2, "spatial_dims": 2, "use_downsample": False},
        [2, 2, 20, 12],
    ),
    "dints_2d_every_path_batch": lambda name: dints(
        name,
        {"channel_mul": 0.125, "num_blocks": 2, "num_depths": 3, "spatial_dims": 2, "norm_name": ["group", {"num_groups": 2}], "act_name": "prelu"},
        {"in_channels": 1, "num_classes": 2, "spatial_dims": 2, "norm_name": ["group", {"num_groups": 2}], "act_name": "prelu"},
        [1, 1, 32, 16],
    ),
    "autoencoderkl_2d": lambda name: autoencoder(
        name,
        {
            "spatial_dims": 2,
            "in_channels": 1,
            "out_channels": 2,
            "channels": [8, 16],
            "num_res_blocks": [1, 2],
            "norm_num_groups": 4,
            "attention_levels": [False, True],
            "latent_channels": 3,
        },
        [2, 1, 16, 24],
    ),
    "autoencoderkl_3d_deconv": lambda name: autoencoder(
        name,
        {
            "spatial_dims": 3,
            "channels": [4, 8, 8],
            "num_res_blocks": 1,
            "norm_num_groups": 2,
            "attention_levels": [False, False, True],
            "with_encoder_nonlocal_attn": False,
            "use_convtranspose": True,
            "include_fc": False,
            "use_combined_linear": True,
        },
        [1, 1, 8, 16, 12],
    ),
    "diffusion_model_unet_2d": lambda name: diffusion(
        name,
        {
            "spatial_dims": 2,
            "in_channels": 1,
            "out_channels": 2,
            "channels": [8, 16, 16],
            "num_res_blocks": [1, 2, 1],
            "norm_num_groups": 4,
            "attention_levels": [False, True, True],
            "num_head_channels": [0, 8, 16],
        },
        [2, 1, 16, 24],
        [999, 17],
    ),
    "diffusion_model_unet_3d_updown": lambda name: diffusion(
        name,
        {
            "spatial_dims": 3,
            "in_channels": 3,
            "out_channels": 3,
            "channels": [8, 8],
            "num_res_blocks": 1,
            "norm_num_groups": 4,
            "attention_levels": [True, False],
            "num_head_channels": 4,
            "resblock_updown": True,
            "include_fc": False,
            "use_combined_linear": True,
        },
        [1, 3, 8, 12, 4],
        [500],
    ),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        CASES[name](name)
