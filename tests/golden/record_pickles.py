"""Records pickles of protocols 0 to 5 and files of torch.save, and what Python reads from them.

    python record_pickles.py ../../engine/pickle/tests/recorded ../fuzz/corpus/pickle

`values.P.pkl`, `arrays.P.pkl`, `records.P.pkl` are pickles of protocol P, `*.4s.pkl` those that
pickletools.optimize shortened, `postprocessing.P.pkl` what nnU-Net would write. `values.json` has what Python reads:
a tuple is a list, other types are tables with their kind. `*.pt` are files of torch.save, with `tensors.json`.
`tar.pt` is laid out as PyTorch before 0.1.10 did; torch.load checks it. The second folder gets seeds for fuzzing.
"""

import argparse
import collections
import dataclasses
import io
import json
import pickle
import pickletools
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import torch
from nnunetv2.postprocessing.remove_connected_components import remove_all_but_largest_component_from_segmentation

FOLDER, SEEDS = Path(sys.argv[1]), Path(sys.argv[2])
FOLDER.mkdir(parents=True, exist_ok=True)


@dataclasses.dataclass
class Record:
    name: str
    spacing: tuple


class Table(dict):
    pass


def defaults():
    made = collections.defaultdict(list)
    made["a"].append(1)
    return made


shared = ["shared"]
VALUES = {
    "none": None,
    "truths": [True, False],
    "whole": [0, 1, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**40, 2**63 - 1, -(2**63)],
    "reals": [0.0, -0.5, 0.1, 1e10],
    "texts": ["", "plain", "\u00e9t\u00e9 \u6a21 \U0001f600", "a\nb\\n\\u0041 'quoted' \"twice\"", "x" * 300],
    "bytes": [b"", b"\x00\xff\n'", b"y" * 300, bytearray(b"ab")],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "sets": [set(), {3, 1, 2}, frozenset([5, 4])],
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "defaults": defaults(),
    "counts": collections.Counter("aab"),
    "twice": [shared, shared],
    5: "a number is a key",
}
ARRAYS = {
    "types": [np.array([0, 1, 100, 1], dtype=kind) for kind in
              ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", ">f4", ">i4"]],
    "columns": np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4)),
    "no_values": np.zeros((2, 0, 3)),
    "no_axes": np.array(2.5),
    "scalars": [np.float64(0.1), np.int64(-7), np.bool_(True), np.float32(0.25), np.uint8(200)],
}
RECORDS = {
    "record": Record("liver", (1.0, 0.5)),
    "arguments": argparse.Namespace(epochs=3),
    "table": Table(a=1),
    "device": torch.device("cpu"),
}
STEPS = ([remove_all_but_largest_component_from_segmentation] * 2,
         [{"labels_or_regions": 1}, {"labels_or_regions": [(1, 2), np.int64(3)], "background_label": 0}])


def described(value):
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": list(value)}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(value)}
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if isinstance(value, dict) and not isinstance(value, Table):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, torch.device):
        return {"object": "torch.device", "fields": {}}
    if isinstance(value, (Record, argparse.Namespace, Table)):
        fields = dict(value) if isinstance(value, Table) else vars(value)
        kind = type(value)
        return {"object": f"{kind.__module__}.{kind.__qualname__}", "fields": described(dict(fields))}
    return value


seen = set()
expected = {}
for name, value in [("values", VALUES), ("arrays", ARRAYS), ("records", RECORDS), ("postprocessing", STEPS)]:
    for protocol in range(6):
        data = pickle.dumps(value, protocol=protocol)
        (FOLDER / f"{name}.{protocol}.pkl").write_bytes(data)
        seen |= {operation.name for operation, _, _ in pickletools.genops(data)}
    (FOLDER / f"{name}.4s.pkl").write_bytes(pickletools.optimize(pickle.dumps(value, protocol=4)))
    if name != "postprocessing":
        expected[name] = described(value)
expected["operations"] = sorted(seen)
(FOLDER / "values.json").write_text(json.dumps(expected, indent=1) + "\n")

# --- torch.save

torch.manual_seed(0)
base = torch.randn(4, 6)
STATE = collections.OrderedDict(
    whole=base,
    part=base[1:3, 2:5],
    turned=base.t(),
    repeated=torch.tensor([[1.5], [2.5]]).expand(2, 3),
    parameter=torch.nn.Parameter(torch.arange(3.0)),
    half=torch.tensor([0.5, -2.0]).half(),
    brain=torch.tensor([0.5, -2.0]).bfloat16(),
    double=torch.tensor([0.1], dtype=torch.float64),
    truth=torch.tensor([True, False]),
    counter=torch.tensor(7),
    small=torch.tensor([-1, 2], dtype=torch.int8),
    empty=torch.zeros(0, 3),
)
# Types that no class of storages has: a function of its own, of archives only.
LATER = collections.OrderedDict(STATE, unsigned=torch.tensor([1, 65535], dtype=torch.uint16))


def listed(state):
    def one(tensor):
        flat = tensor.detach().contiguous()
        raw = flat.reshape(-1).view(torch.uint8) if flat.numel() else torch.zeros(0, dtype=torch.uint8)
        return {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape), "bytes": raw.tolist()}
    return {key: one(value) for key, value in state.items()}


tensors = {}


def saved(name, state, **options):
    torch.save(state, FOLDER / name, **options)
    read = torch.load(FOLDER / name, weights_only=False)
    assert listed(read) == listed(state), name
    tensors[name] = listed(state)


saved("archive.pt", LATER)
saved("archive5.pt", LATER, pickle_protocol=5)
torch.serialization.set_crc32_options(False)
saved("unchecked.pt", LATER)
torch.serialization.set_crc32_options(True)
saved("stream.pt", STATE, _use_new_zipfile_serialization=False)
saved("stream1.pt", STATE, _use_new_zipfile_serialization=False, pickle_protocol=1)
saved("stream4.pt", STATE, _use_new_zipfile_serialization=False, pickle_protocol=4)


def tar(path):
    """Two storages, of which one has a part that is a storage too, and three tensors."""
    whole, counts = torch.arange(12, dtype=torch.float32), torch.tensor([3, 4], dtype=torch.int64)
    storages, index, main = io.BytesIO(), io.BytesIO(), io.BytesIO()
    dump = lambda value, file: pickle.dump(value, file, protocol=2)
    dump(2, storages)
    for key, kind, values in [(11, torch.FloatStorage, whole), (22, torch.LongStorage, counts)]:
        dump((key, "cpu", kind), storages)
        storages.write(struct.pack("<q", values.numel()) + values.numpy().tobytes())
    dump([(33, 11, 4, 8)], storages)
    dump(3, index)
    for key, storage, kind, shape, stride, offset in [
        (1, 11, torch.FloatTensor, (3, 4), (4, 1), 0),
        (2, 33, torch.FloatTensor, (2, 2), (1, 4), 1),
        (3, 22, torch.LongTensor, (2,), (1,), 0),
    ]:
        dump((key, storage, kind), index)
        index.write(struct.pack("<i", len(shape)) + bytes(4))
        index.write(struct.pack(f"<{2 * len(shape) + 1}q", *shape, *stride, offset))

    class Keyed(pickle.Pickler):
        def persistent_id(self, value):
            return value[1] if isinstance(value, tuple) and value[0] == "tensor" else None

    Keyed(main, protocol=2).dump({"whole": ("tensor", "1"), "part": ("tensor", "2"), "counts": ("tensor", "3")})
    facts = io.BytesIO()
    dump({"protocol_version": 1000, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, facts)
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as archive:
        for name, content in [("sys_info", facts), ("pickle", main), ("tensors", index), ("storages", storages)]:
            entry = tarfile.TarInfo(name)
            entry.size = len(content.getvalue())
            archive.addfile(entry, io.BytesIO(content.getvalue()))
    wanted = {"whole": whole.reshape(3, 4), "part": whole[4:].clone().as_strided((2, 2), (1, 4), 1), "counts": counts}
    read = torch.load(path, weights_only=False)
    assert listed(read) == listed(wanted)
    tensors["tar.pt"] = listed(wanted)


tar(FOLDER / "tar.pt")
(FOLDER / "tensors.json").write_text(json.dumps(tensors) + "\n")

SEEDS.mkdir(parents=True, exist_ok=True)
for name in ["values.0.pkl", "values.2.pkl", "values.5.pkl", "arrays.1.pkl", "arrays.4.pkl", "records.3.pkl",
             "postprocessing.2.pkl", "postprocessing.4.pkl", "archive.pt", "stream1.pt", "tar.pt"]:
    (SEEDS / name).write_bytes((FOLDER / name).read_bytes())
import zipfile
with zipfile.ZipFile(FOLDER / "archive.pt") as archive:
    inside = next(name for name in archive.namelist() if name.endswith("data.pkl"))
    (SEEDS / "data.pkl").write_bytes(archive.read(inside))
print(sorted(seen), sum(path.stat().st_size for path in FOLDER.iterdir()))
