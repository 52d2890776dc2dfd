"""Records arrays of Blosc2 as nnU-Net stores them, and small ones for the fuzzer.

    python3 tests/golden/record_blosc2.py [FOLDER [CORPUS]]

Needs nnunetv2 2.8 with blosc2 4.14. It writes FOLDER (tests/golden/nnunet/b2nd): `TYPE.npy` are arrays, and
`TYPE-KIND.b2nd` the same array by blosc2.asarray, which nnUNetDatasetBlosc2.save_case calls, with other codecs,
filters, chunks and blocks. `refused-KIND.b2nd` are arrays that Hearth does not read. CORPUS (tests/fuzz/corpus/b2nd)
gets images, labels behind a separator, and files that lie.
"""

import shutil
import struct
import sys
from pathlib import Path

import blosc2
import numpy as np
from blosc2 import Codec, Filter

HERE = Path(__file__).parent
NEXT = b"==NEXT FILE=="
# Channels, z, y, x: no chunk and no block of those below divides it.
SHAPE = (2, 7, 13, 17)
SHAPES = {
    "whole": (SHAPE, SHAPE),
    "edges": ((1, 5, 8, 10), (1, 2, 8, 4)),
    "wide": ((2, 4, 13, 17), (1, 3, 5, 17)),
    "small": ((1, 2, 3, 5), (1, 1, 2, 3)),
}


def arrays():
    """Smooth values with a margin of zeros, as images of nnU-Net have; labels; whole numbers; and others."""
    random = np.random.default_rng(7)
    c, z, y, x = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    inside = (y - 6) ** 2 + (x - 8) ** 2 < 36
    labels = np.where((y - 6) ** 2 + (x - 8) ** 2 + 2 * (z - 3) ** 2 < 14, 1 + c, 0)
    image = (np.sin(x / 3) + np.cos(y / 4) * z / 5 - c + random.normal(0, 0.05, SHAPE)) * inside
    return {
        "f4": image.astype(np.float32),
        "i1": np.where(inside, labels, -1).astype(np.int8),
        "i2": np.round(image * 300).astype(np.int16),
        "u1": labels.astype(np.uint8),
        "f2": image.astype(np.float16),
        "f8": image.astype(np.float64),
        "big": image.astype(">f4"),
    }


def write(path, array, shapes="edges", codec=Codec.LZ4HC, filters=(Filter.NOFILTER,), **options):
    """A file as nnU-Net writes it."""
    path.unlink(missing_ok=True)
    chunks, blocks = SHAPES[shapes] if isinstance(shapes, str) else shapes
    level = options.pop("clevel", 5)
    cparams = {"codec": codec, "filters": list(filters), "clevel": level, "nthreads": 1, **options}
    blosc2.asarray(np.ascontiguousarray(array), urlpath=str(path), chunks=chunks, blocks=blocks, cparams=cparams)
    return path


def record(out):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    known = arrays()
    for name, array in known.items():
        np.save(out / f"{name}.npy", array)
    codecs = {"blosclz": Codec.BLOSCLZ, "lz4": Codec.LZ4, "lz4hc": Codec.LZ4HC, "zlib": Codec.ZLIB, "zstd": Codec.ZSTD}
    filters = {"none": [Filter.NOFILTER], "shuffle": [Filter.SHUFFLE], "bits": [Filter.BITSHUFFLE]}
    for codec, number in codecs.items():
        for kind, chosen in filters.items():
            write(out / f"f4-{codec}-{kind}.b2nd", known["f4"], codec=number, filters=chosen)
    for name in ("i1", "i2", "u1", "f2", "f8", "big"):
        write(out / f"{name}-lz4hc-shuffle.b2nd", known[name], filters=[Filter.SHUFFLE])
        write(out / f"{name}-zstd-bits.b2nd", known[name], "wide", Codec.ZSTD, [Filter.BITSHUFFLE])
        write(out / f"{name}-blosclz-none.b2nd", known[name], "whole", Codec.BLOSCLZ)
    for shapes in ("whole", "wide", "small"):
        write(out / f"f4-{shapes}.b2nd", known["f4"], shapes)
        write(out / f"i1-{shapes}.b2nd", known["i1"], shapes)
    # Not packed; streams of a byte each, and one for all; two filters; a filter with a size of its own.
    write(out / "f4-stored.b2nd", known["f4"], clevel=0)
    for mode in ("ALWAYS", "NEVER"):
        split = getattr(blosc2.SplitMode, f"{mode}_SPLIT")
        options = dict(codec=Codec.LZ4, filters=[Filter.SHUFFLE], splitmode=split)
        write(out / f"f4-{mode.lower()}-split.b2nd", known["f4"], **options)
    write(out / "f4-two-filters.b2nd", known["f4"], codec=Codec.ZSTD, filters=[Filter.SHUFFLE, Filter.BITSHUFFLE])
    write(out / "f4-shuffle-2.b2nd", known["f4"], codec=Codec.ZSTD, filters=[Filter.SHUFFLE], filters_meta=[2])
    # One value: in the index, behind a header, in streams.
    for name, value in (("zeros", 0), ("nan", np.nan), ("seven", 7)):
        array = np.full(SHAPE, value, np.float32)
        np.save(out / f"{name}.npy", array)
        write(out / f"{name}-asarray.b2nd", array)
    options = {"chunks": SHAPES["edges"][0], "blocks": SHAPES["edges"][1], "mode": "w"}
    blosc2.zeros(SHAPE, np.float32, urlpath=str(out / "zeros-special.b2nd"), **options)
    blosc2.nans(SHAPE, np.float32, urlpath=str(out / "nan-special.b2nd"), **options)
    blosc2.full(SHAPE, 7, np.float32, urlpath=str(out / "seven-special.b2nd"), **options)
    # What is not read.
    blosc2.uninit(SHAPE, np.float32, urlpath=str(out / "refused-uninit.b2nd"), **options)
    write(out / "refused-delta.b2nd", known["f4"], filters=[Filter.DELTA])
    of_plugin = dict(codec=Codec.ZSTD, filters=[Filter.SHUFFLE, Filter.BYTEDELTA], filters_meta=[0, 4])
    write(out / "refused-bytedelta.b2nd", known["f4"], **of_plugin)
    blosc2.SChunk(data=known["f4"].tobytes(), urlpath=str(out / "refused-chunks.b2frame"), mode="w")
    records = np.zeros(SHAPE, dtype=[("a", "<f4"), ("b", "<i2")])
    write(out / "refused-records.b2nd", records)
    write(out / "refused-complex.b2nd", known["f4"].astype(np.complex64))
    for path in sorted(out.glob("*.b2nd")):
        name = path.name.split("-")[0]
        if name != "refused":
            assert np.array_equal(blosc2.open(str(path))[...], np.load(out / f"{name}.npy"), equal_nan=True), path


def corpus(out):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shape, shapes = (1, 4, 6, 6), ((1, 3, 4, 6), (1, 2, 4, 4))
    image = arrays()["f4"][:1, 1:5, 3:9, 5:11]
    labels = arrays()["i1"][:1, 1:5, 3:9, 5:11]
    kinds = {
        "blosclz": dict(codec=Codec.BLOSCLZ, filters=[Filter.SHUFFLE]),
        "lz4": dict(codec=Codec.LZ4HC),
        "zlib": dict(codec=Codec.ZLIB, filters=[Filter.BITSHUFFLE]),
        "zstd": dict(codec=Codec.ZSTD, filters=[Filter.SHUFFLE]),
        "stored": dict(clevel=0),
    }
    for name, options in kinds.items():
        write(out / f"{name}.b2nd", image, shapes, **options)
    of_labels = write(out / "labels.b2nd", labels, shapes).read_bytes()
    (out / "labels.b2nd").write_bytes((out / "lz4.b2nd").read_bytes() + NEXT + of_labels)
    # Runs of zeros that claim to be larger than any memory, alone and as labels.
    options = {"chunks": shapes[0], "blocks": shapes[1], "mode": "w"}
    blosc2.zeros(shape, np.int8, urlpath=str(out / "zeros.b2nd"), **options)
    zeros = bytearray((out / "zeros.b2nd").read_bytes())
    huge = (1, 3 << 10, 4 << 10, 6 << 10)
    array = zeros.index(b"\xd3" + struct.pack(">q", shape[0]))
    zeros[array : array + 36] = b"".join(b"\xd3" + struct.pack(">q", n) for n in huge)
    at = array + 37
    zeros[at : at + 20] = b"".join(b"\xd2" + struct.pack(">i", n) for n in (1, 3 << 8, 4 << 8, 6 << 8))
    chunk = 3 * 4 * 6 << 24
    zeros[57:62] = b"\xd2" + struct.pack(">i", chunk)
    zeros[29:38] = b"\xd3" + struct.pack(">q", chunk * 64)
    (out / "huge.b2nd").write_bytes(zeros)
    # Labels of the size of their image, in chunks that are far larger.
    wide = bytearray((out / "zeros.b2nd").read_bytes())
    chunk = 1 << 30
    wide[at : at + 20] = b"".join(b"\xd2" + struct.pack(">i", n) for n in (1, 1 << 10, 1 << 10, 1 << 10))
    wide[57:62] = b"\xd2" + struct.pack(">i", chunk)
    wide[29:38] = b"\xd3" + struct.pack(">q", chunk)
    (out / "wide_labels.b2nd").write_bytes((out / "lz4.b2nd").read_bytes() + NEXT + wide)
    (out / "huge_labels.b2nd").write_bytes((out / "lz4.b2nd").read_bytes() + NEXT + zeros)


def main():
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "nnunet/b2nd")
    corpus(Path(sys.argv[2]) if len(sys.argv) > 2 else HERE.parent / "fuzz/corpus/b2nd")


if __name__ == "__main__":
    main()
