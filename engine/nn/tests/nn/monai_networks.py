"""Loads our weights strictly, predicts, draws new weights, saves them and predicts again: FOLDER PARAMS.

FOLDER holds ours.safetensors and x.safetensors, and gets y.safetensors and theirs.safetensors.
"""
import json
import sys

import monai.networks.nets as nets
import monai.networks.nets.swin_unetr
import torch
from safetensors.torch import load_file, save_file

folder = sys.argv[1]
params = json.loads(sys.argv[2])


def tuples(v):
    if isinstance(v, list) and len(v) == 2 and isinstance(v[0], str):
        return (v[0], v[1])
    return v


def build():
    given = {k: tuples(v) for k, v in params.items()}
    name = given.pop("name")
    given.pop("pretrained", None)
    if name == "ResNetFeatures":
        given["pretrained"] = False
    given.pop("normalize" if name == "SwinTransformer" else "", None)
    if name == "NetAdapter":
        model = {k: tuples(v) for k, v in given.pop("model").items() if k != "pretrained"}
        given["model"] = nets.ResNet(**model)
    return (getattr(nets, name, None) or getattr(nets.swin_unetr, name))(**given)


def flat(y):
    if isinstance(y, torch.Tensor):
        return [y]
    return [t for part in y for t in flat(part)]


x = load_file(folder + "/x.safetensors")["x"]
if params.get("spatial_dims", params.get("dim", 3)) == 2:
    x = x[..., 0]
extra = [params["normalize"]] if params["name"] == "SwinTransformer" else []
out = {}
with torch.no_grad():
    torch.manual_seed(7)
    net = build()
    net.load_state_dict(load_file(folder + "/ours.safetensors"), strict=True)
    net.eval()
    out.update({f"ours{i}": y.contiguous() for i, y in enumerate(flat(net(x, *extra)))})
    other = build()
    for name, value in other.state_dict().items():
        if value.is_floating_point():
            value += 0.01 * torch.randn_like(value).abs()
    other.eval()
    out.update({f"theirs{i}": y.contiguous() for i, y in enumerate(flat(other(x, *extra)))})
save_file(out, folder + "/y.safetensors")
save_file({k: v.contiguous() for k, v in other.state_dict().items()}, folder + "/theirs.safetensors")
