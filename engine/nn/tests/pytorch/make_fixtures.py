"""Writes the files that the tests of `hearth_nn::pytorch` read: `python make_fixtures.py FOLDER`, with torch and MONAI.

Small networks, saved in the ways people save them, and pickles that would run a command.
"""
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from monai.networks.nets import UNet

out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)


def unet(dims):
    net = UNet(spatial_dims=dims, in_channels=1, out_channels=2, channels=(2, 4), strides=(2,), num_res_units=1, norm="batch")
    net(torch.rand((2, 1) + (8,) * dims))
    return net


net = unet(3)
state = net.state_dict()
torch.save(state, out / "state_dict.pt")
torch.save(state, out / "legacy.pth", _use_new_zipfile_serialization=False)
torch.save(unet(2).state_dict(), out / "flat.pt")
torch.save(net, out / "module.pt")
torch.save(OrderedDict(("module." + key, value) for key, value in state.items()), out / "data_parallel.pt")
optimizer = torch.optim.Adam(net.parameters())
net(torch.rand(1, 1, 8, 8, 8)).sum().backward()
optimizer.step()
checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": np.float64(0.5), "device": torch.device("cpu")}
torch.save(checkpoint, out / "checkpoint.pt")
state = torch.load(out / "state_dict.pt", weights_only=True)
named = OrderedDict((key.replace("model.0.", "down."), value.double() if value.is_floating_point() else value) for key, value in state.items())
torch.save({"network": {"state_dict": named}}, out / "renamed.pt")
torch.save({key: value.half() if value.is_floating_point() else value for key, value in state.items()}, out / "half.pt")
with zipfile.ZipFile(out / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
    bundle.writestr("tiny/configs/metadata.json", "{}")
    bundle.write(out / "state_dict.pt", "tiny/models/model.pt")


class Command:
    def __reduce__(self):
        return os.system, ("touch PICKLE_WAS_EXECUTED",)


torch.save({"weight": torch.ones(2), "extra": Command()}, out / "command_beside.pt")
torch.save(Command(), out / "command.pt")
(out / "command_protocol_4.pt").write_bytes(pickle.dumps({"a": Command()}, protocol=4))
# A call whose result is thrown away before the weights follow.
tensors = pickle.dumps({"a": 1}, protocol=2)
injected = b"\x80\x02cposix\nsystem\nX\x1a\x00\x00\x00touch PICKLE_WAS_EXECUTED\x85R0" + tensors[2:]
(out / "command_thrown_away.pt").write_bytes(injected)
print(sum(path.stat().st_size for path in out.iterdir()))
