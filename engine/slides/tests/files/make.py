"""Makes the small TIFFs of this folder and expected.json: written and read back by tifffile and imagecodecs, which know nothing of us.

python make.py  (tifffile 2026.3.3, imagecodecs 2026.3.6)
"""
import hashlib, json, pathlib
import imagecodecs, numpy as np, tifffile

here = pathlib.Path(__file__).parent
rng = np.random.default_rng(7)
y, x = np.mgrid[0:40, 0:50]
rgb = np.stack([120 + 100 * np.sin(x / 9), 90 + 80 * np.cos(y / 7), 60 + 2 * x + y], -1) + rng.normal(0, 4, (40, 50, 3))
rgb = rgb.clip(0, 255).astype(np.uint8)
gray = rgb[..., 1].copy()
wide = (rgb.astype(np.uint16) * 257 + rng.integers(0, 200, rgb.shape).astype(np.uint16) % 7)
real = (gray.astype(np.float32) / 3 - 20) ** 3
tile = dict(tile=(16, 32))
files = {
    "jpeg_ycbcr.tif": (rgb, dict(compression="jpeg", photometric="rgb", tile=(32, 32), compressionargs=dict(level=90))),
    "jpeg_rgb.tif": (rgb, dict(compression="jpeg", photometric="rgb", tile=(32, 32), compressionargs=dict(level=90, outcolorspace="rgb"))),
    "jpeg_strips.tif": (gray, dict(compression="jpeg", rowsperstrip=16)),
    "jpeg_planar.tif": (rgb.transpose(2, 0, 1), dict(compression="jpeg", photometric="rgb", planarconfig="separate", tile=(32, 32))),
    "jp2k_rgb.svs.tif": (rgb, dict(compression=33005, photometric="rgb", tile=(32, 32))),
    "jp2k_gray16.tif": (wide[..., 0].copy(), dict(compression=34712, tile=(32, 32))),
    "jp2k_lossy.tif": (rgb, dict(compression=34712, photometric="rgb", tile=(32, 32), compressionargs=dict(level=40, reversible=False))),
    "none_strips.tif": (rgb, dict(photometric="rgb", rowsperstrip=7)),
    "none_big_endian.tif": (wide, dict(photometric="rgb", byteorder=">", **tile)),
    "lzw_predictor.tif": (rgb, dict(compression="lzw", predictor=True, photometric="rgb", **tile)),
    "lzw_u16_big_endian.tif": (wide, dict(compression="lzw", predictor=True, byteorder=">", photometric="rgb", **tile)),
    "deflate_bigtiff.tif": (rgb, dict(compression="zlib", bigtiff=True, photometric="rgb", **tile)),
    "deflate_planar.tif": (wide.transpose(2, 0, 1), dict(compression="zlib", predictor=True, planarconfig="separate", photometric="rgb", **tile)),
    "zstd_f32.tif": (real, dict(compression="zstd", predictor=3, **tile)),
    "deflate_f64_big_endian.tif": (real.astype(np.float64), dict(compression="zlib", predictor=3, byteorder=">", **tile)),
    "zstd_i32.tif": (real.astype(np.int32), dict(compression="zstd", predictor=2, **tile)),
    "packbits_rgba.tif": (np.dstack([rgb, gray]), dict(compression="packbits", photometric="rgb", extrasamples=["unassalpha"], rowsperstrip=9)),
    "i8_strips.tif": ((gray.astype(np.int16) - 128).astype(np.int8), dict(rowsperstrip=40)),
    "u32_bigtiff_big_endian.tif": (gray.astype(np.uint32) * 70001, dict(bigtiff=True, byteorder=">", compression="zlib", predictor=2, rowsperstrip=11)),
    "five_channels.tif": (np.dstack([rgb, wide[..., :2].astype(np.uint8)]), dict(photometric="minisblack", planarconfig="contig", compression="zlib")),
}
expected = {}

def record(name, page, image, lossless):
    image = np.ascontiguousarray(image)
    places = [(0, 0), (39, 49), (20, 31), (31, 32), (16, 7)]
    entry = dict(shape=image.shape, dtype=str(image.dtype), mean=float(image.mean()),
                 samples=[[r, c, image[r, c].ravel().tolist()] for r, c in places if r < image.shape[0] and c < image.shape[1]])
    if lossless:
        entry["sha256"] = hashlib.sha256(image.astype(image.dtype.newbyteorder("=")).tobytes()).hexdigest()
    expected.setdefault(name, []).insert(page, entry)

for name, (image, options) in files.items():
    tifffile.imwrite(here / name, image, metadata=None, **options)
    back = tifffile.imread(here / name)
    if options.get("planarconfig") == "separate":
        back = back.transpose(1, 2, 0)
    record(name, 0, back, "jpeg" not in name and "lossy" not in name)

# An index for each pixel, and a table of colours.
indices = (gray // 4).astype(np.uint8)
table = np.zeros((3, 256), np.uint16)
table[:, :64] = np.stack([np.arange(64) * 1000, 65535 - np.arange(64) * 900, np.arange(64) ** 2 * 16])
tifffile.imwrite(here / "palette.tif", indices, photometric="palette", colormap=table, metadata=None, compression="lzw")
record("palette.tif", 0, (table >> 8).astype(np.uint8)[:, indices].transpose(1, 2, 0), True)
# Darker is larger.
tifffile.imwrite(here / "white_is_zero.tif", gray, photometric="miniswhite", metadata=None)
record("white_is_zero.tif", 0, 255 - gray, True)
tifffile.imwrite(here / "bilevel.tif", gray > 90, photometric="minisblack", metadata=None)
record("bilevel.tif", 0, (gray > 90).astype(np.uint8) * 255, True)
# A stack, and OME-TIFF with a pyramid below its page.
tifffile.imwrite(here / "stack.tif", np.stack([gray, gray[::-1], gray // 2]), photometric="minisblack", metadata=None, compression="zlib")
for i, page in enumerate(tifffile.imread(here / "stack.tif")):
    record("stack.tif", i, page, True)
with tifffile.TiffWriter(here / "pyramid.ome.tif", ome=True) as out:
    meta = dict(axes="YXS", PhysicalSizeX=0.5, PhysicalSizeXUnit="µm", PhysicalSizeY=0.5, PhysicalSizeYUnit="µm")
    out.write(rgb, photometric="rgb", subifds=1, metadata=meta, tile=(16, 16), compression="zlib")
    out.write(rgb[::2, ::2].copy(), photometric="rgb", subfiletype=1, metadata=None, tile=(16, 16), compression="zlib")
record("pyramid.ome.tif", 0, rgb, True)
record("pyramid.ome.tif", 1, rgb[::2, ::2], True)
# Aperio's YCbCr in JPEG 2000: luma and chroma as they are, no transform in the codestream.
ycc = np.stack([[16 * i + j for j in range(16)] for i in range(16)]).astype(np.uint8)
ycc = np.dstack([ycc, 255 - ycc, np.full_like(ycc, 90)])
tifffile.imwrite(here / "jp2k_ycbcr.tif", ycc, compression=33003, photometric="rgb", tile=(16, 16), metadata=None,
                 compressionargs=dict(mct=False, reversible=True))
yf, cb, cr = (ycc[..., i].astype(float) - (128 if i else 0) for i in range(3))
back = np.dstack([yf + 1.402 * cr, yf - 0.344136 * cb - 0.714136 * cr, yf + 1.772 * cb]).round().clip(0, 255).astype(np.uint8)
record("jp2k_ycbcr.tif", 0, back, False)
(here / "expected.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items()) + "\n}\n")
