//! DICOM whole-slide images, written by hand, read back exactly; damaged and unsupported ones.

mod common;
#[path = "common/dicom.rs"]
mod dicom;

use std::path::Path;

use common::value;
use dicom::{EXPLICIT, IMPLICIT, Instance, JPEG, JPEG_2000, Offsets, RLE, Value};
use hearth_slides::{
    Background, Color, Limits, Raster, Resolution, Samples, Slide, SlideError, SlideOptions, TiffFile, TileCache,
    dicom_slides, is_dicom_slide,
};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The largest memory that reading a damaged file may take.
const MOST: usize = 96 << 20;

/// Small limits, so that a false size of any magnitude is detected.
const LIMITS: Limits = Limits { tag_bytes: 1 << 20, tile_bytes: 4 << 20, image_bytes: 8 << 20, pages: 100 };

fn options() -> SlideOptions {
    SlideOptions { cache: Some(TileCache::new(1 << 20)), ..SlideOptions::default() }
}

fn open(instance: &Instance) -> Result<Slide, SlideError> {
    Slide::from_bytes("slide.dcm", instance.bytes(), &options())
}

/// The whole of level 0.
fn read(instance: &Instance) -> Result<Raster, SlideError> {
    let slide = open(instance)?;
    let (width, height) = slide.dimensions();
    slide.read_region(0, 0, 0, width, height)
}

/// All values of an image, as they were written.
fn values(instance: &Instance, value: impl Fn(usize, usize, usize) -> u32) -> Samples {
    let (width, height) = (instance.size.0 as usize, instance.size.1 as usize);
    let samples = usize::from(instance.samples);
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let all = places.flat_map(|(x, y)| (0..samples).map(move |c| (x, y, c))).map(|(x, y, c)| value(x, y, c));
    if instance.bits == 8 {
        Samples::U8(all.map(|v| v as u8).collect())
    } else {
        Samples::U16(all.map(|v| v as u16).collect())
    }
}

fn storage() -> impl Strategy<Value = Instance> {
    let sizes = ((1u32..60, 1u32..60), (1u16..30, 1u16..30), prop::sample::select(vec![8u16, 16]));
    let kinds =
        (prop::sample::select(vec![EXPLICIT, IMPLICIT, RLE, "1.2.840.10008.1.2.1.98"]), any::<bool>(), any::<bool>());
    let offsets = prop::sample::select(vec![Offsets::None, Offsets::Basic, Offsets::Extended]);
    (sizes, kinds, offsets).prop_map(|((size, tile, bits), (syntax, gray, planar), offsets)| {
        let (samples, photometric) = if gray { (1, "MONOCHROME2") } else { (3, "RGB") };
        let planar = planar && syntax != RLE;
        Instance { syntax, size, tile, samples, bits, photometric, planar, offsets, ..Instance::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read(instance in storage()) {
        let instance = instance.of_values(value);
        let raster = read(&instance).expect("readable");
        prop_assert_eq!(raster.color, if instance.samples == 1 { Color::Gray } else { Color::Rgb });
        prop_assert_eq!(raster.samples, values(&instance, value));
    }

    /// Some tiles in any order; the others are the background.
    #[test]
    fn sparse_tiles_are_where_they_say(instance in storage(), seed in any::<u32>()) {
        let (across, down) = instance.tiles();
        let there = |column: usize, row: usize| !(value(column, row, seed as usize) >> 16).is_multiple_of(3);
        let mut tiles: Vec<(usize, usize)> = (0..down).flat_map(|r| (0..across).map(move |c| (c, r))).collect();
        tiles.retain(|(c, r)| there(*c, *r) || (*c, *r) == (0, 0));
        tiles.sort_by_key(|(c, r)| value(*c, *r, 99 + seed as usize));
        let (width, height) = (usize::from(instance.tile.0), usize::from(instance.tile.1));
        let mut instance = instance;
        instance.frames = tiles.iter().map(|(c, r)| vec![instance.frame(*c, *r, value)]).collect();
        let corner = |(c, r): &(usize, usize)| ((c * width + 1) as i32, (r * height + 1) as i32, 0.0);
        instance.places = Some(tiles.iter().map(corner).collect());
        let expected = values(&instance, |x, y, c| {
            if tiles.contains(&(x / width, y / height)) { value(x, y, c) } else { u32::MAX }
        });
        prop_assert_eq!(read(&instance).expect("readable").samples, expected);
    }
}

#[test]
fn what_is_absent_is_the_background() {
    let mut instance = Instance { places: Some(vec![(9, 1, 0.0)]), ..Instance::default() };
    instance.frames = vec![vec![vec![7; 192]]];
    let black = SlideOptions { background: Background::Black, ..options() };
    let slide = Slide::from_bytes("slide.dcm", instance.bytes(), &black).expect("a slide");
    let region = slide.read_region(0, 6, -1, 4, 3).expect("a region");
    let row = |v: [u8; 4]| v.iter().flat_map(|v| [*v; 3]).collect::<Vec<u8>>();
    assert_eq!(region.as_u8(), Some([row([0; 4]), row([0, 0, 7, 7]), row([0, 0, 7, 7])].concat().as_slice()));
    assert_eq!(slide.stats().tiles_decoded, 2, "one of them is absent");
}

#[test]
fn colours_become_rgb_and_white_is_the_largest() {
    let ycc = Instance { size: (2, 2), tile: (2, 2), photometric: "YBR_FULL", ..Instance::default() };
    let ycc = ycc.of_values(|x, y, c| [[76, 85, 255], [150, 44, 21], [29, 255, 107], [128; 3]][x + 2 * y][c]);
    let expected = [254, 0, 0, 0, 255, 1, 0, 0, 254, 128, 128, 128];
    assert_eq!(read(&ycc).expect("readable").as_u8(), Some(&expected[..]));
    let dark = Instance { samples: 1, photometric: "MONOCHROME1", ..Instance::default() }.of_values(value);
    assert_eq!(read(&dark).expect("readable").samples, values(&dark, |x, y, c| !value(x, y, c)));
}

/// The tiles of a TIFF's first page, with their tables.
fn tiles_of(name: &str) -> (TiffFile, Vec<Vec<u8>>) {
    use tiff::tags::Tag;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
    let bytes = std::fs::read(&path).expect("a file");
    let mut decoder = tiff::decoder::Decoder::new(std::io::Cursor::new(&bytes)).expect("a TIFF");
    let offsets = decoder.get_tag_u64_vec(Tag::TileOffsets).expect("offsets");
    let counts = decoder.get_tag_u64_vec(Tag::TileByteCounts).expect("counts");
    let tables = decoder.get_tag_u8_vec(Tag::Unknown(347)).unwrap_or_default();
    let tile = |(at, count): (&u64, &u64)| {
        let tile = &bytes[*at as usize..][..*count as usize];
        match tables.strip_suffix(&[0xFF, 0xD9]) {
            Some(tables) => [tables, &tile[2..]].concat(),
            None => tile.to_vec(),
        }
    };
    (TiffFile::open(&path).expect("a TIFF"), offsets.iter().zip(&counts).map(tile).collect())
}

/// The same code streams in TIFF and in DICOM yield the same pixels.
#[test]
fn frames_of_codecs_are_as_in_tiff() {
    for (name, syntax, photometric, samples, bits) in [
        ("jpeg_ycbcr.tif", JPEG, "YBR_FULL_422", 3, 8),
        ("jpeg_rgb.tif", JPEG, "RGB", 3, 8),
        ("jp2k_rgb.svs.tif", JPEG_2000, "YBR_RCT", 3, 8),
        ("jp2k_lossy.tif", "1.2.840.10008.1.2.4.91", "YBR_ICT", 3, 8),
        ("jp2k_ycbcr.tif", JPEG_2000, "YBR_FULL", 3, 8),
        ("jp2k_gray16.tif", JPEG_2000, "MONOCHROME2", 1, 16),
    ] {
        let (file, tiles) = tiles_of(name);
        let page = &file.pages()[0];
        let tile = page.tile.map(|(w, h)| (w as u16, h as u16)).expect("tiles");
        let size = (page.width as u32, page.height as u32);
        let mut instance = Instance { syntax, photometric, samples, bits, size, tile, ..Instance::default() };
        // Fragments of an even length, as the standard requires.
        let half = |stream: &Vec<u8>| stream.len() / 4 * 2;
        let split = |stream: &Vec<u8>| {
            let (a, b) = stream.split_at(half(stream));
            vec![a.to_vec(), b.to_vec()]
        };
        for offsets in [Offsets::None, Offsets::Basic, Offsets::Extended] {
            for pieces in [1, 2] {
                instance.frames = tiles.iter().map(|t| if pieces == 1 { vec![t.clone()] } else { split(t) }).collect();
                instance.offsets = offsets;
                let raster = read(&instance).unwrap_or_else(|error| panic!("{name}, {offsets:?}: {error}"));
                let expected = file.read(0).expect("readable");
                assert_eq!((raster.color, raster.channels), (expected.color, expected.channels), "{name}");
                assert_eq!(raster.samples, expected.samples, "{name}, {offsets:?}");
            }
        }
    }
}

/// Writes files into a new folder.
fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).expect("written"));
    folder
}

fn level(width: u32, height: u32) -> Instance {
    let scale = 80 / width as usize;
    Instance { size: (width, height), ..Instance::default() }.of_values(move |x, y, c| value(x * scale, y * scale, c))
}

fn pyramid() -> Vec<(&'static str, Vec<u8>)> {
    let label = Instance { role: "LABEL", size: (5, 4), tile: (5, 4), ..Instance::default() }.of_values(value);
    let spaced = |level: Instance, scale: f64| Instance { spacing: Some((0.0005 * scale, 0.0004 * scale)), ..level };
    vec![
        ("b", spaced(level(40, 24), 2.0).bytes()),
        ("c.dcm", spaced(level(20, 12), 4.0).bytes()),
        ("a.dcm", spaced(level(80, 48), 1.0).bytes()),
        ("label.dcm", label.bytes()),
        ("overview.dcm", Instance { role: "OVERVIEW", ..label.clone() }.bytes()),
        ("notes.txt", b"not DICOM".to_vec()),
        ("ct.dcm", Instance { class: "1.2.840.10008.5.1.4.1.1.2", ..label }.bytes()),
    ]
}

#[test]
fn the_instances_of_a_series_are_one_slide() {
    let files = folder(&pyramid());
    for name in ["", "a.dcm", "b", "c.dcm", "label.dcm"] {
        let path = if name.is_empty() { files.path().to_owned() } else { files.path().join(name) };
        let slide = Slide::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((slide.vendor(), slide.path()), ("dicom", path.as_path()));
        let levels: Vec<_> = slide.levels().iter().map(|l| (l.width, l.height, l.downsample)).collect();
        assert_eq!(levels, [(80, 48, 1.0), (40, 24, 2.0), (20, 12, 4.0)], "{name}");
        assert_eq!(slide.levels()[0].tile_width, 8);
        assert_eq!((slide.compression(0).as_deref(), slide.compression(3)), (Some("none"), None), "{name}");
        let mpp = slide.mpp().expect("a resolution");
        assert!((mpp[0] - 0.4).abs() < 1e-12 && (mpp[1] - 0.5).abs() < 1e-12, "{mpp:?}");
        assert_eq!(slide.level_for(Resolution::Mpp(0.9), 0.2).expect("a level"), 1);
        assert_eq!(slide.objective_power(), Some(40.0));
        assert_eq!(slide.properties()["dicom.Manufacturer"], "Somebody");
        assert_eq!(slide.associated_names(), ["label", "macro"]);
        let label = slide.read_associated("label").expect("a label");
        assert_eq!((label.width, label.height, label.pixel(4, 3)[2]), (5, 4, f64::from(value(4, 3, 2) as u8)));
        for (number, scale) in [(0, 1), (1, 2), (2, 4)] {
            let region = slide.read_region(number, 3, 2, 10, 9).expect("a region");
            assert_eq!(region.pixel(9, 8)[1], f64::from(value(12 * scale, 10 * scale, 1) as u8), "level {number}");
        }
        // The tiles of level 0 that the region touches, of 60.
        let before = slide.stats().tiles_decoded;
        slide.read_region(0, 41, 17, 14, 3).expect("a region");
        assert_eq!(slide.stats().tiles_decoded - before, 2);
    }
}

#[test]
fn slides_are_found_by_content() {
    let files = folder(&pyramid());
    assert!(is_dicom_slide(files.path()) && is_dicom_slide(files.path().join("b")));
    for other in ["ct.dcm", "notes.txt", "nothing.dcm"] {
        assert!(!is_dicom_slide(files.path().join(other)), "{other}");
    }
    assert_eq!(dicom_slides(files.path()).expect("listed"), [files.path().join("a.dcm")]);
    let second = Instance { series: "1.2.9", ..level(40, 24) };
    std::fs::write(files.path().join("z.dcm"), second.bytes()).expect("written");
    assert_eq!(dicom_slides(files.path()).expect("listed"), ["a.dcm", "z.dcm"].map(|name| files.path().join(name)));
    let error = Slide::open(files.path()).expect_err("two slides").to_string();
    for part in ["2 slides", "series 1.2.3: 3 files, 80 x 48 pixels, a.dcm", "series 1.2.9: 1 files", "z.dcm"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(Slide::open(files.path().join("z.dcm")).expect("a slide").levels().len(), 1);
    let empty = folder(&[("notes.txt", Vec::new())]);
    assert!(dicom_slides(empty.path()).expect("listed").is_empty() && !is_dicom_slide(empty.path()));
    assert!(matches!(Slide::open(empty.path()), Err(SlideError::NotTiff { .. })));
}

#[test]
fn images_of_one_size_are_one_level() {
    let copy = Instance { series: "1.2.3", ..level(80, 48) }.of_values(|_, _, _| 9);
    let files = folder(&[("a.dcm", level(80, 48).bytes()), ("copy.dcm", copy.bytes())]);
    for (name, wanted) in [("a.dcm", value(0, 0, 0) as u8), ("copy.dcm", 9), ("", value(0, 0, 0) as u8)] {
        let slide = Slide::open(files.path().join(name)).expect("a slide");
        assert_eq!(slide.levels().len(), 1);
        assert_eq!(slide.read_region(0, 0, 0, 1, 1).expect("a pixel").pixel(0, 0)[0], f64::from(wanted), "{name}");
    }
}

/// The bytes before `DICM` may be a TIFF's header.
#[test]
fn a_file_that_is_also_a_tiff_is_dicom() {
    let mut bytes = level(80, 48).bytes();
    bytes[..8].copy_from_slice(b"II*\0\x08\0\0\0");
    let slide = Slide::from_bytes("slide.dcm", bytes, &options()).expect("a slide");
    assert_eq!((slide.vendor(), slide.dimensions()), ("dicom", (80, 48)));
}

/// A level in parts of some frames each.
fn parts(instance: &Instance, counts: &[usize]) -> Vec<Instance> {
    let mut first = 0;
    let part = |(i, count): (usize, &usize)| {
        let numbers = [(0x0020_9162, i as u16 + 1), (0x0020_9163, counts.len() as u16)];
        let mut part = instance.clone();
        part.frames = instance.frames[first..first + count].to_vec();
        part.places = instance.places.as_ref().map(|places| places[first..first + count].to_vec());
        part =
            part.with(0x0020_9161, Value::Text("UI", "1.2.7".into())).with(0x0020_9228, Value::U32(vec![first as u32]));
        first += count;
        numbers.into_iter().fold(part, |part, (tag, number)| part.with(tag, Value::U16(vec![number])))
    };
    counts.iter().enumerate().map(part).collect()
}

#[test]
fn parts_of_a_concatenation_are_one_level() {
    let whole = level(80, 48);
    let corners = (0..60).map(|i| (i % 10 * 8 + 1, i / 10 * 8 + 1, 0.0)).collect();
    let sparse = Instance { places: Some(corners), ..whole.clone() };
    for instance in [whole, sparse] {
        let parts = parts(&instance, &[13, 40, 7]);
        let files = folder(&[("3.dcm", parts[0].bytes()), ("1.dcm", parts[1].bytes()), ("2.dcm", parts[2].bytes())]);
        for name in ["", "1.dcm", "3.dcm"] {
            let slide = Slide::open(files.path().join(name)).expect("a slide");
            let region = slide.read_region(0, 0, 0, 80, 48).expect("a region");
            assert_eq!(region.samples, values(&instance, value));
        }
        std::fs::remove_file(files.path().join("1.dcm")).expect("removed");
        let error = Slide::open(files.path()).expect_err("a part is missing").to_string();
        assert!(error.contains("[1, 3] of a concatenation"), "{error}");
        told(&parts[0], "1 of 3 parts of a concatenation");
    }
}

#[test]
fn of_focal_planes_the_first_is_read() {
    let one = level(80, 48);
    let planes = |order: &[f64]| {
        let mut instance = one.clone().with(0x0048_0303, Value::U32(vec![2]));
        instance.frames = Vec::new();
        for z in order {
            let (across, down) = one.tiles();
            for i in 0..across * down {
                instance.frames.push(vec![one.frame(i % across, i / across, |x, y, c| value(x, y, c + *z as usize))]);
            }
        }
        instance
    };
    assert_eq!(read(&planes(&[0.0, 5.0])).expect("readable").samples, values(&one, value));
    let order = [5.0, 0.0];
    let mut sparse = planes(&order);
    let place = |i: i32| (i % 60 % 10 * 8 + 1, i % 60 / 10 * 8 + 1, order[i as usize / 60]);
    sparse.places = Some((0..120).map(place).collect());
    assert_eq!(read(&sparse).expect("readable").samples, values(&one, value));
    // A depth that follows the focus from tile to tile is not a focal plane.
    let mut focused = one.clone();
    focused.places = Some((0..60).map(|i| (i % 10 * 8 + 1, i / 10 * 8 + 1, f64::from(i % 7))).collect());
    assert_eq!(read(&focused).expect("readable").samples, values(&one, value));
}

#[test]
fn the_size_of_a_pixel_may_come_from_the_imaged_volume() {
    let mpp = open(&Instance { spacing: None, ..level(80, 48) }).expect("a slide").mpp().expect("a resolution");
    assert!((mpp[0] - 0.2).abs() < 1e-6 && (mpp[1] - 0.3).abs() < 1e-6, "{mpp:?}");
    let none = Instance { spacing: None, ..level(80, 48) }.without(0x0048_0001);
    assert_eq!(open(&none).expect("a slide").mpp(), None);
}

fn told(instance: &Instance, what: &str) {
    let error = read(instance).expect_err(what).to_string();
    assert!(error.starts_with("slide.dcm: ") && error.contains(what), "{error:?} does not say {what:?}");
}

#[test]
fn what_is_wrong_is_told() {
    let good = || level(80, 48);
    let u16s = |v: u16| Value::U16(vec![v]);
    let word = |vr: &'static str, v: &str| Value::Text(vr, v.to_owned());
    told(&Instance { class: "1.2.840.10008.5.1.4.1.1.66.4", ..good() }, "not a whole-slide image");
    told(&Instance { role: "LABEL", ..good() }, "no image of the slide itself (ImageType VOLUME), only LABEL");
    told(&Instance { photometric: "PALETTE COLOR", samples: 1, ..good() }, "interpretation \"PALETTE COLOR\"");
    told(&Instance { photometric: "YBR_FULL_422", ..good() }, "interpretation \"YBR_FULL_422\"");
    told(&good().with(0x0028_0103, u16s(1)), "signed samples");
    told(&good().with(0x0028_0100, u16s(32)), "in 32; supported are");
    told(&good().with(0x0028_0002, u16s(9)), "SamplesPerPixel (0028,0002) is 9, expected 1 to 4");
    told(&good().without(0x0028_0010), "no Rows (0028,0010)");
    told(&good().with(0x0048_0006, Value::U32(vec![0])), "TotalPixelMatrixColumns (0048,0006) is 0");
    told(&good().with(0x0028_0008, word("IS", "many")), "NumberOfFrames (0028,0008) is not a whole number");
    told(&good().with(0x0028_0008, word("IS", "59")), "10 x 6 tiles in 1 focal planes, but 59 frames");
    told(&good().with(0x0048_0006, Value::U32(vec![88])), "11 x 6 tiles in 1 focal planes, but 60 frames");
    told(&good().with(0x0048_0302, Value::U32(vec![2])), "several optical paths");
    told(&good().with(0x0048_0006, Value::U32(vec![2_000_000_000])), "tiles in 1 focal planes, but 60 frames");
    told(&good().without(0x7FE0_0010), "no pixels (PixelData)");
    told(
        &good().with(0x0008_0070, Value::Bytes(vec![0; 70 << 10])).with(0x0008_0008, word("CS", "A\\B\\VOLUME")),
        "bytes of Manufacturer",
    );
    let mut few = good();
    few.frames.pop();
    told(
        &few.clone().with(0x0028_0008, word("IS", "60")),
        "11328 bytes of pixels are too few for 60 frames of 192 bytes",
    );
    told(&Instance { syntax: RLE, ..few.with(0x0028_0008, word("IS", "60")) }, "59 fragments of pixels for 60 frames");
    for (syntax, name) in [
        ("1.2.840.10008.1.2.2", "explicit VR big endian"),
        ("1.2.840.10008.1.2.1.99", "deflated explicit VR"),
        ("1.2.840.10008.1.2.4.80", "JPEG-LS"),
        ("1.2.840.10008.1.2.4.201", "high-throughput JPEG 2000"),
        ("1.2.840.10008.1.2.4.70", "lossless JPEG"),
    ] {
        told(&Instance { syntax, ..good() }, &format!("the transfer syntax {syntax} ({name}"));
    }
    let sparse = |places: &[(i32, i32)]| {
        let mut instance = good();
        instance.frames.truncate(places.len());
        instance.places = Some(places.iter().map(|(c, r)| (*c, *r, 0.0)).collect());
        instance
    };
    told(&sparse(&[(1, 1), (9, 9), (1, 1)]), "frames 1 and 3 lie at the same place");
    told(&sparse(&[(1, 1), (5, 1)]), "frame 2 lies at column 5, row 1; only frames on a grid of 8 x 8 pixels");
    told(&sparse(&[(1, 1), (81, 1)]), "frame 2 lies at column 81, row 1 of 80 x 48 pixels");
    told(&sparse(&[(0, 1)]), "frame 1 lies at column 0");
    told(
        &sparse(&[(1, 1), (9, 1)]).with(0x0028_0008, word("IS", "3")),
        "attributes of 2 frames, but NumberOfFrames is 3",
    );
    told(&good().with(0x0020_9311, word("CS", "TILED_SPARSE")), "frame 1 has no position");
    // Frames that are not code streams.
    told(&Instance { syntax: JPEG, ..good() }, "frame 1: JPEG");
    told(&Instance { syntax: RLE, ..good() }, "frame 1: RLE: ");
    let broken = Slide::from_bytes("slide.dcm", good().bytes()[..140].to_vec(), &options());
    assert!(broken.is_err_and(|error| error.to_string().contains("truncated")));
}

#[test]
fn images_that_are_no_pyramid_are_told() {
    let files = folder(&[("a.dcm", level(80, 48).bytes()), ("b.dcm", level(40, 48).bytes())]);
    let error = Slide::open(files.path()).expect_err("no pyramid").to_string();
    assert!(error.contains("80 x 48 and 40 x 48 pixels in one series are not levels"), "{error}");
    let other = level(40, 24).with(0x0020_0052, Value::Text("UI", "1.2.6".into()));
    let files = folder(&[("a.dcm", level(80, 48).bytes()), ("b.dcm", other.bytes())]);
    let error = Slide::open(files.path()).expect_err("two pyramids").to_string();
    assert!(error.contains("a series with 2 pyramids"), "{error}");
    assert_eq!(Slide::open(files.path().join("a.dcm")).expect("a slide").levels().len(), 1);
}

#[test]
fn a_damaged_level_is_named() {
    let (whole, small) = (level(80, 48).bytes(), level(40, 24).bytes());
    let files = folder(&[("a.dcm", whole), ("b.dcm", small[..small.len() - 100].to_vec()), ("notes", vec![0; 500])]);
    for path in [files.path().to_owned(), files.path().join("a.dcm")] {
        let error = Slide::open(&path).expect_err("a truncated level").to_string();
        assert!(error.contains(": b.dcm: PixelData") && error.contains("truncated"), "{error}");
    }
    std::fs::write(files.path().join("b.dcm"), &small[..500]).expect("written");
    let error = Slide::open(files.path().join("a.dcm")).expect_err("a truncated level").to_string();
    assert!(error.contains("b.dcm may be a level of the slide") && error.contains("repair it"), "{error}");
}

/// Small valid files of all kinds.
fn corpus() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for syntax in [EXPLICIT, IMPLICIT, RLE] {
        for offsets in [Offsets::None, Offsets::Basic, Offsets::Extended] {
            let instance = Instance { syntax, offsets, ..Instance::default() }.of_values(value);
            let corners = (0..6).map(|i| (i % 3 * 8 + 1, i / 3 * 8 + 1, 0.0)).collect();
            files.push(instance.bytes());
            files.push(Instance { places: Some(corners), ..instance }.bytes());
        }
    }
    for (name, syntax, photometric) in
        [("jpeg_ycbcr.tif", JPEG, "YBR_FULL_422"), ("jp2k_rgb.svs.tif", JPEG_2000, "YBR_RCT")]
    {
        let frames = tiles_of(name).1.into_iter().map(|tile| vec![tile]).collect();
        let instance = Instance { syntax, photometric, frames, size: (50, 40), tile: (32, 32), ..Instance::default() };
        assert!(read(&instance).is_ok(), "{name}");
        files.push(instance.bytes());
    }
    files
}

/// Opens and reads everything; this must never panic or allocate much memory.
fn exercise(bytes: Vec<u8>) {
    let options = SlideOptions { limits: LIMITS, ..options() };
    if let Ok(slide) = Slide::from_bytes("bad.dcm", bytes, &options) {
        let _ = slide.read_region(0, -3, 5, 40, 40);
        let _ = slide.thumbnail(16);
    }
}

#[test]
fn truncated_and_flipped_files_are_errors_or_images() {
    // Panics of decoders print to standard error; only the returned error matters.
    std::panic::set_hook(Box::new(|_| {}));
    let mut state = 1u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for whole in corpus() {
        for cut in (0..whole.len()).step_by(whole.len() / 150 + 1) {
            exercise(whole[..cut].to_vec());
        }
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..1 + next(3) {
                // Half of the changes are in the header.
                let at = if next(2) == 0 { next(bytes.len().min(1500)) } else { next(bytes.len()) };
                bytes[at] = if next(2) == 0 { next(256) as u8 } else { bytes[at] ^ 1 << next(8) };
            }
            exercise(bytes);
        }
    }
    assert!(MEMORY.peak_usage() < MOST, "{} bytes", MEMORY.peak_usage());
}
