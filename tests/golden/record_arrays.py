"""Records files of torch.save with NumPy arrays, and what Python reads from them.

    python record_arrays.py ../../engine/bundle/tests/recorded

`KIND.pt` are the files; `arrays.json` has the values that torch.load and tolist() give. The values
are those of a topology search (two codes and a map of nodes) and one array of each type.
"""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(sys.argv[1])
NODES = np.array([[1, 0, 1], [1, 1, 0]], dtype=np.float64)
CODE = np.array([[0, 1, 4], [3, 2, 0]], dtype=np.int64)


def content():
    types = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", ">f4", ">i4"]
    return {
        "node_a": NODES,
        "arch_code_a": (NODES > 0).astype(np.float32),
        "arch_code_c": CODE,
        "columns": np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4)),
        "sliced": np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2],
        "types": [np.array([0, 1, 100, 1], dtype=kind) for kind in types],
        "negative": np.array([-1, -128, 127], dtype=np.int8),
        "no_values": np.zeros((2, 0, 3)),
        "no_axes": np.array(2.5),
        "scalars": [np.float64(0.1), np.int64(-7), np.bool_(True), np.float32(0.25)],
        "same": [NODES, NODES],
        "plain": {"iter": 18590, "best": 0.75, "names": ("a", "b"), "none": None, "big": 1 << 40, "minus": -3},
    }


def listed(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    kinds = {
        "zip": {},
        "older": {"_use_new_zipfile_serialization": False},
        "protocol4": {"pickle_protocol": 4},
        "protocol5": {"pickle_protocol": 5},
    }
    wanted = json.dumps(listed(content()))
    for name, options in kinds.items():
        path = FOLDER / f"{name}.pt"
        torch.save(content(), path, **options)
        assert json.dumps(listed(torch.load(path, weights_only=False))) == wanted
    # As NumPy before 2.0 names its functions, and as Python 2 stores bytes.
    text = pickle.dumps({"node_a": NODES}, protocol=2).replace(b"numpy._core", b"numpy.core")
    with open(FOLDER / "earlier.pt", "wb") as file:
        for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(part, file, protocol=2)
        file.write(text)
        pickle.dump([], file, protocol=2)
    assert torch.load(FOLDER / "earlier.pt", weights_only=False)["node_a"].tolist() == NODES.tolist()
    torch.save({"node_a": NODES, "weight": torch.zeros(2, 3)}, FOLDER / "tensor.pt")
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    (FOLDER / "arrays.json").write_text(json.dumps({"versions": versions, "content": json.loads(wanted)}, indent=1))


if __name__ == "__main__":
    main()
