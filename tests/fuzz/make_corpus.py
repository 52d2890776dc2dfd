"""Makes the sound files of corpus/dicom and corpus/tiff: small ones of every kind, of values that are computed here.

python make_corpus.py  (pydicom 3.0.2, tifffile 2026.3.3, imagecodecs 2026.3.6)
"""
import io, pathlib, zlib
import imagecodecs as ic, numpy as np, tifffile
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.filewriter import dcmwrite

here = pathlib.Path(__file__).parent / "corpus"
NEXT = b"==NEXT FILE=="
rng = np.random.default_rng(11)
y, x = np.mgrid[0:16, 0:16]
gray = (100 + 60 * np.sin(x / 3) + 4 * y + rng.normal(0, 2, (16, 16))).clip(0, 255).astype(np.uint8)
rgb = np.dstack([gray, gray[::-1], 255 - gray])
ct = gray.astype(np.int16) * 8 - 700
mono = (gray.astype(np.uint16) * 16)
# The first few parts of 1.2.840.10008.1.2.
EXPLICIT, DEFLATED, BIG, RLE = ".1", ".1.99", ".2", ".5"


def save(folder, name, data):
    (here / folder).mkdir(exist_ok=True)
    (here / folder / name).write_bytes(data)


# --- DICOM

def item(**values):
    out = Dataset()
    for name, value in values.items():
        setattr(out, name, value)
    return out


def image(pixels, number=1, **values):
    """A slice that lies 2 mm above that of the number before."""
    samples = pixels.shape[2] if pixels.ndim == 3 else 1
    bits = 8 * pixels.dtype.itemsize
    out = item(SOPClassUID="1.2.840.10008.5.1.4.1.1.2", SOPInstanceUID=f"1.2.{number}", Modality="CT", PatientID="p",
               SeriesInstanceUID="1.3", FrameOfReferenceUID="1.4", InstanceNumber=number, ImagePositionPatient=[-8, 5, 2 * number],
               ImageOrientationPatient=[1, 0, 0, 0, 1, 0], PixelSpacing=[1, 1], SliceThickness=2, SamplesPerPixel=samples,
               PhotometricInterpretation="RGB" if samples == 3 else "MONOCHROME2", Rows=pixels.shape[0], Columns=pixels.shape[1],
               BitsAllocated=bits, BitsStored=bits, HighBit=bits - 1, PixelRepresentation=int(pixels.dtype.kind == "i"))
    if samples == 3:
        out.PlanarConfiguration = 0
    for name, value in values.items():
        setattr(out, name, value)
    return out


def file(data, syntax, pixels=b"", name="PixelData", bare=False):
    """The bytes of a file; `pixels`: as they are, or frames to be put into fragments."""
    if isinstance(pixels, list):
        data.add_new(0x7FE00010, "OB", encapsulate([p + b"\0" * (len(p) % 2) for p in pixels]))
        data["PixelData"].is_undefined_length = True
    elif pixels:
        vr = {"FloatPixelData": "OF", "DoubleFloatPixelData": "OD"}.get(name, "OW" if data.BitsAllocated > 8 else "OB")
        data.add_new(name, vr, pixels + b"\0" * (len(pixels) % 2))
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2" + syntax
    data.file_meta.MediaStorageSOPClassUID, data.file_meta.MediaStorageSOPInstanceUID = data.SOPClassUID, data.SOPInstanceUID
    out = io.BytesIO()
    dcmwrite(out, data, enforce_file_format=True, implicit_vr=None)
    # Without the preamble of zeros; or the data set alone: the first element tells the length of those before it.
    data = out.getvalue()[132:]
    return data[12 + int.from_bytes(data[8:12], "little"):] if bare else data


def rle(pixels):
    planes = pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1)
    segments = []
    for plane in planes:
        big = plane.astype(plane.dtype.newbyteorder(">")).tobytes()
        size = plane.dtype.itemsize
        segments += [ic.packbits_encode(big[i::size]) for i in range(size)]
    segments = [s + b"\0" * (len(s) % 2) for s in segments]
    offsets = [64 + sum(map(len, segments[:i])) for i in range(len(segments))]
    header = np.array([len(segments)] + offsets + [0] * (15 - len(offsets)), "<u4")
    return header.tobytes() + b"".join(segments)


scaled = dict(RescaleSlope=2, RescaleIntercept=-1000, RescaleType="HU", PixelPaddingValue=-700)
small = ct[:6, :8].copy()
dicom = {
    "explicit": file(image(small, **scaled), EXPLICIT, small.tobytes()),
    "implicit": file(image(small), "", small.tobytes()),
    "big_endian": file(image(small), BIG, small.astype(">i2").tobytes()),
    "bare_implicit": file(image(small), "", small.tobytes(), bare=True),
    "bare_explicit": file(image(small), EXPLICIT, small.tobytes(), bare=True),
    "deflated": file(image(small), DEFLATED, small.tobytes()),
    "uncompressed_fragments": file(image(small), ".1.98", [small.tobytes()]),
    # A transfer syntax that pydicom does not know yet: its UID is put in afterwards.
    "deflated_frame": file(image(small), ".1.98", [zlib.compress(small.tobytes(), wbits=-15)]).replace(b".1.2.1.98", b".1.2.8.1\0"),
    "rle_16": file(image(ct), RLE, [rle(ct)]),
    "rle_rgb": file(image(rgb), RLE, [rle(rgb)]),
    "jpeg_gray": file(image(gray), ".4.50", [ic.jpeg8_encode(gray, level=80)]),
    "jpeg_422": file(image(rgb, PhotometricInterpretation="YBR_FULL_422"), ".4.50", [ic.jpeg8_encode(rgb, level=80, subsampling="422")]),
    "jpeg_rgb": file(image(rgb), ".4.50", [ic.jpeg8_encode(rgb, level=80, outcolorspace="rgb")]),
    "jpeg_12": file(image(mono, BitsStored=12, HighBit=11), ".4.51", [ic.jpeg8_encode(mono, level=80, bitspersample=12)]),
    "jpeg_lossless": file(image(mono), ".4.70", [ic.ljpeg_encode(mono, bitspersample=16)]),
    "jpeg_ls": file(image(mono), ".4.80", [ic.jpegls_encode(mono)]),
    "jpeg_ls_near": file(image(gray), ".4.81", [ic.jpegls_encode(gray, level=3)]),
    "jpeg_2000": file(image(mono), ".4.90", [ic.jpeg2k_encode(mono, codecformat="j2k", reversible=True)]),
    "jpeg_2000_rgb": file(image(rgb, PhotometricInterpretation="YBR_ICT"), ".4.91", [ic.jpeg2k_encode(rgb, codecformat="j2k", level=30, reversible=False)]),
    "high_throughput": file(image(gray), ".4.201", [ic.htj2k_encode(gray, reversible=True)]),
    "monochrome1_12_of_16": file(image(mono[:4], PhotometricInterpretation="MONOCHROME1", Modality="CR", BitsStored=12, HighBit=11), EXPLICIT, mono[:4].tobytes()),
    "float": file(image(small, BitsAllocated=32), EXPLICIT, small.astype("<f4").tobytes(), "FloatPixelData"),
    "double": file(image(small, BitsAllocated=64, PhotometricInterpretation="MONOCHROME1", Modality="CR", PixelRepresentation=0), EXPLICIT, small.astype("<f8").tobytes(), "DoubleFloatPixelData"),
    "ybr_planar": file(image(rgb[:4], PhotometricInterpretation="YBR_FULL", PlanarConfiguration=1), EXPLICIT, rgb[:4].transpose(2, 0, 1).tobytes()),
    "ybr_422": file(image(rgb[:4], PhotometricInterpretation="YBR_FULL_422"), EXPLICIT, rgb[:4, :, :2].tobytes()),
    "modality_lut": file(image(gray[:4], ModalityLUTSequence=[item(LUTDescriptor=[256, 0, 16], ModalityLUTType="HU", LUTData=np.arange(0, 512, 2, "<u2").tobytes())]), EXPLICIT, gray[:4].tobytes()),
}
lut = [item(LUTDescriptor=[3, 1, 16], ModalityLUTType="HU", LUTData=np.arange(3, dtype="<u2").tobytes())]
dicom["float_modality_lut"] = file(image(small, BitsAllocated=32, ModalityLUTSequence=lut), EXPLICIT, ((small - 500) * np.float32(1e30)).tobytes(), "FloatPixelData")
table = {f"{c}PaletteColorLookupTable{k}": v for c in ("Red", "Green", "Blue")
         for k, v in (("Descriptor", [64, 0, 16]), ("Data", np.arange(0, 64 * 900, 900).astype("<u2").tobytes()))}
dicom["palette"] = file(image(gray[:4] // 4, PhotometricInterpretation="PALETTE COLOR", **table), EXPLICIT, (gray[:4] // 4).tobytes())

# Several frames: with functional groups, and with offsets.
position = lambda z, x=-8: dict(PlanePositionSequence=[item(ImagePositionPatient=[x, 5, z])])
shared = item(PlaneOrientationSequence=[item(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])],
              PixelMeasuresSequence=[item(PixelSpacing=[1, 1], SliceThickness=2, SpacingBetweenSlices=2)])
groups = dict(NumberOfFrames=3, SharedFunctionalGroupsSequence=[shared], PerFrameFunctionalGroupsSequence=[
    item(FrameContentSequence=[item(TemporalPositionIndex=1)], PixelValueTransformationSequence=[item(RescaleSlope=i, RescaleIntercept=0)], **position(2 * i))
    for i in (1, 2, 3)])
dicom["enhanced"] = file(image(small, SOPClassUID="1.2.840.10008.5.1.4.1.1.2.1", **groups), EXPLICIT, small.tobytes() * 3)
dicom["enhanced_jpeg_ls"] = file(image(gray, **groups), ".4.80", [ic.jpegls_encode(np.roll(gray, i)) for i in range(3)])
dicom["dose"] = file(image(small.astype(np.uint32), Modality="RTDOSE", NumberOfFrames=3, GridFrameOffsetVector=[0, 2, 4], DoseGridScaling="1e-4", DoseUnits="GY"),
                     EXPLICIT, small.astype("<u4").tobytes() * 3)

# Regions, by themselves and with their images.
slices = [file(image(small, i, **scaled), EXPLICIT, small.tobytes()) for i in (1, 2, 3)]
refers = item(FrameOfReferenceUID="1.4", RTReferencedStudySequence=[item(ReferencedSOPInstanceUID="1.5", RTReferencedSeriesSequence=[item(SeriesInstanceUID="1.3")])])
square = lambda a, b, z: item(ContourGeometricType="CLOSED_PLANAR", NumberOfContourPoints=4, ContourData=[a - 8, a + 5, z, b - 8, a + 5, z, b - 8, b + 5, z, a - 8, b + 5, z])
structures = file(item(SOPClassUID="1.2.840.10008.5.1.4.1.1.481.3", SOPInstanceUID="1.6", Modality="RTSTRUCT", PatientID="p", SeriesInstanceUID="1.7",
    StructureSetLabel="s", ReferencedFrameOfReferenceSequence=[refers],
    StructureSetROISequence=[item(ROINumber=n, ROIName=name, ReferencedFrameOfReferenceUID="1.4") for n, name in ((1, "GTV"), (2, "body"))],
    ROIContourSequence=[item(ReferencedROINumber=1, ROIDisplayColor=[255, 0, 0], ContourSequence=[square(0, 4, 2), square(1, 3, 2), square(0, 4, 4)]),
                        item(ReferencedROINumber=2, ContourSequence=[square(-1, 6, 4.6)])],
    RTROIObservationsSequence=[item(ObservationNumber=1, ReferencedROINumber=1, RTROIInterpretedType="GTV")]), EXPLICIT)
dicom["structures"] = structures
dicom["folder_structures"] = NEXT.join([*slices, structures])
dicom["folder_slices"] = NEXT.join([*slices, file(image(small, 5), "", small.tobytes(), bare=True)])
dicom["folder_two_series"] = NEXT.join([slices[0], slices[1], file(image(gray[:4], 1, SeriesInstanceUID="1.9", Modality="PT", Units="BQML"), EXPLICIT, gray[:4].tobytes())])


def segmentation(kind, bits, frames, syntax=EXPLICIT, left=-8, **values):
    segments = [item(SegmentNumber=i, SegmentLabel=name, SegmentAlgorithmType="MANUAL", RecommendedDisplayCIELabValue=[41661, 41167, 40792],
                     SegmentedPropertyTypeCodeSequence=[item(CodeValue="1", CodeMeaning=name)]) for i, name in ((1, "liver"), (2, "lesion"))]
    own = [item(SegmentIdentificationSequence=[item(ReferencedSegmentNumber=1 + i % 2)], **position(2 * (1 + i // 2), left)) for i in range(4)]
    data = image(small.astype(np.uint8), 9, SOPClassUID="1.2.840.10008.5.1.4.1.1.66.4", Modality="SEG", SeriesInstanceUID="1.8", NumberOfFrames=4, SegmentationType=kind,
                 SegmentSequence=segments, SharedFunctionalGroupsSequence=[shared], PerFrameFunctionalGroupsSequence=own,
                 ReferencedSeriesSequence=[item(SeriesInstanceUID="1.3")], BitsAllocated=bits, BitsStored=bits, HighBit=bits - 1, **values)
    del data.ImagePositionPatient, data.ImageOrientationPatient, data.PixelSpacing, data.SliceThickness
    return file(data, syntax, frames)


masks = np.stack([np.roll(small > -100, i, 1) for i in range(4)])
bits = np.packbits(masks, bitorder="little").tobytes()
dicom["seg_binary"] = segmentation("BINARY", 1, bits)
dicom["seg_fractional_rle"] = segmentation("FRACTIONAL", 8, [rle((m * 200).astype(np.uint8)) for m in masks], RLE, MaximumFractionalValue=255)
dicom["seg_label_map"] = segmentation("LABELMAP", 8, (masks * np.uint8(2)).tobytes())
dicom["folder_seg"] = NEXT.join([*slices, segmentation("BINARY", 1, bits)])
dicom["folder_seg_far_away"] = NEXT.join([slices[1], segmentation("BINARY", 1, bits, left="1e30")])
for name, data in dicom.items():
    save("dicom", name + ".dcm", data)

# --- TIFF

tile, wide = dict(tile=(16, 16)), rgb.astype(np.uint16) * 257
large = np.tile(rgb, (2, 2, 1))[:28]
real = (gray.astype(np.float32) / 3 - 20) ** 3
tiff = {
    "strips": (rgb[:7], dict(photometric="rgb", rowsperstrip=3)),
    "big_endian": (wide[:5], dict(photometric="rgb", byteorder=">")),
    "big_lzw": (large, dict(compression="lzw", predictor=True, bigtiff=True, photometric="rgb", **tile)),
    "lzw_16_big_endian": (wide, dict(compression="lzw", predictor=True, byteorder=">", photometric="rgb", **tile)),
    "deflate": (rgb, dict(compression="zlib", photometric="rgb", **tile)),
    "deflate_planes": (wide.transpose(2, 0, 1), dict(compression="zlib", predictor=True, planarconfig="separate", photometric="rgb", **tile)),
    "zstd": (large, dict(compression="zstd", photometric="rgb", **tile)),
    "zstd_float": (real, dict(compression="zstd", predictor=3, **tile)),
    "double_big_endian": (real[:8].astype(np.float64), dict(compression="zlib", predictor=3, byteorder=">")),
    "packbits_alpha": (np.dstack([rgb, gray]) // 64, dict(compression="packbits", photometric="rgb", extrasamples=["unassalpha"], rowsperstrip=9)),
    "jpeg": (large, dict(compression="jpeg", photometric="rgb", compressionargs=dict(level=70), **tile)),
    "jpeg_420": (large, dict(compression="jpeg", photometric="ycbcr", subsampling=(2, 2), compressionargs=dict(level=70), **tile)),
    "jpeg_rgb": (rgb, dict(compression="jpeg", photometric="rgb", compressionargs=dict(level=70, outcolorspace="rgb"), **tile)),
    "jpeg_strips": (gray, dict(compression="jpeg", rowsperstrip=8)),
    "jpeg_2000": (rgb, dict(compression=33005, photometric="rgb", **tile)),
    "jpeg_2000_16": (wide[..., 0].copy(), dict(compression=34712, **tile)),
    "jpeg_2000_lossy": (rgb, dict(compression=34712, photometric="rgb", compressionargs=dict(level=30, reversible=False), **tile)),
    "jpeg_2000_ycbcr": (rgb, dict(compression=33003, photometric="rgb", compressionargs=dict(mct=False, reversible=True), **tile)),
    "i8": (gray.astype(np.int16)[:4].astype(np.int8), dict()),
    "i32_big": (gray[:4].astype(np.int32) * 70001, dict(bigtiff=True, byteorder=">", compression="zlib", predictor=2)),
    "palette": (gray // 16, dict(photometric="palette", colormap=(np.arange(768).reshape(3, 256) * 85).astype(np.uint16), compression="lzw")),
    "white_is_zero": (gray[:6], dict(photometric="miniswhite")),
    "bilevel": (gray > 120, dict(photometric="minisblack")),
    "stack": (np.stack([gray, gray[::-1], gray // 2]), dict(photometric="minisblack", compression="zlib")),
}
for name, (values, options) in tiff.items():
    out = io.BytesIO()
    tifffile.imwrite(out, values, metadata=None, **options)
    save("tiff", name + ".tif", out.getvalue())


def pyramid(name, texts, big=False, subifds=0, associated=(), compression="zlib", **options):
    """Two levels, with the text of each page."""
    out = io.BytesIO()
    with tifffile.TiffWriter(out, bigtiff=big, ome=False) as writer:
        common = dict(photometric="rgb", compression=compression, metadata=None, **options)
        writer.write(np.tile(rgb, (2, 2, 1)), tile=(16, 16), description=texts[0], subifds=subifds, resolution=(20000, 20000), resolutionunit="CENTIMETER", **common)
        if texts[0].startswith("Aperio"):
            writer.write(rgb[::2, ::2].copy(), description="Aperio thumbnail", **common)
        writer.write(np.tile(rgb, (2, 2, 1))[::2, ::2].copy(), tile=(16, 16), description=texts[1], subfiletype=1, **common)
        for text in associated:
            writer.write(rgb[:8].copy(), description=text, subfiletype=1, **common)
    save("tiff", name, out.getvalue())


aperio = "Aperio Image Library v1\r\n32x32 [0,0 32x32] (16x16) J2K/KDU Q=70|AppMag = 20|MPP = 0.5"
pyramid("aperio.svs", [aperio, "Aperio Image Library v1\r\n16x16"], compression=33005, associated=["Aperio\r\nlabel 16x8", "Aperio\r\nmacro 16x8"])
pyramid("pyramid.tif", ["a slide", "half"], subifds=1, associated=["label"])
pyramid("pyramid_big.tif", ["a slide", "half"], big=True, compression="jpeg", associated=["macro"])
level = lambda n, s: (f'<DataObject ObjectType="PixelDataRepresentation"><Attribute Name="DICOM_PIXEL_SPACING">"{s}" "{s}"</Attribute>'
                      f'<Attribute Name="PIIM_PIXEL_DATA_REPRESENTATION_NUMBER">{n}</Attribute></DataObject>')
philips = f'<?xml version="1.0"?><DataObject ObjectType="DPUfsImport">{level(0, 0.00025)}{level(1, 0.0005)}</DataObject>'
pyramid("philips.tif", [philips, "level=1"], big=True, compression="jpeg", software="Philips DP v1.0", associated=["Label"])
ome = ('<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Instrument><Objective NominalMagnification="20"/></Instrument><Image Name="s">'
       '<Pixels SizeX="32" SizeY="32" PhysicalSizeX="0.5" PhysicalSizeXUnit="um" PhysicalSizeY="500" PhysicalSizeYUnit="nm"><TiffData IFD="0"/></Pixels></Image>'
       '<Image Name="label"><Pixels><TiffData IFD="1"/></Pixels></Image></OME>')
pyramid("slide.ome.tif", [ome, "half"], subifds=1, associated=["l"])
