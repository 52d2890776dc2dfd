//! Files that contradict themselves, end early or have cycles: errors with cause and position,
//! without a panic and without much memory.

mod common;

use common::{PageSpec, Storage, Values, Writer, page, tiff};
use hearth_slides::{Limits, Slide, SlideError, SlideOptions, TiffFile};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Small limits, so that a false size of any magnitude is detected.
const LIMITS: Limits = Limits { tag_bytes: 1 << 20, tile_bytes: 4 << 20, image_bytes: 8 << 20, pages: 100 };

/// The largest memory that reading may take: a page, its tiles, tags, and the decoders' own memory.
const MOST: usize = 96 << 20;

fn open(bytes: Vec<u8>) -> Result<TiffFile, SlideError> {
    TiffFile::from_bytes("bad.tif", bytes, LIMITS)
}

/// The error of opening the file, or of reading its first page.
fn error(bytes: Vec<u8>) -> String {
    match open(bytes).and_then(|file| file.read(0)) {
        Ok(raster) => panic!("read {} x {}", raster.width, raster.height),
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("bad.tif: "), "{text}");
            text
        }
    }
}

fn told(bytes: Vec<u8>, what: &str) {
    let text = error(bytes);
    assert!(text.contains(what), "{text:?} does not say {what:?}");
}

fn good() -> PageSpec {
    page(&Storage::default(), false)
}

fn long(v: u32) -> Values {
    Values::Long(vec![v])
}

fn short(v: u16) -> Values {
    Values::Short(vec![v])
}

#[test]
fn other_files_are_not_tiffs() {
    told(Vec::new(), "begins with nothing");
    told(b"\x89PNG\r\n\x1a\n".to_vec(), "begins with 89 50 4e 47");
    told(b"II\x2b".to_vec(), "ends within its header");
    told(b"II\x2c\x00\x08\x00\x00\x00".to_vec(), "its version is 44");
    told(b"MM\x00\x2b\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10".to_vec(), "offsets of 4 bytes");
    assert!(matches!(open(b"not a TIFF".to_vec()), Err(SlideError::NotTiff { .. })));
    assert!(matches!(TiffFile::open("/nowhere/at all.tif"), Err(SlideError::Io { .. })));
    assert!(matches!(Slide::open(std::env::temp_dir()), Err(SlideError::NotTiff { .. } | SlideError::Io { .. })));
}

#[test]
fn circles_of_directories_are_told() {
    for big in [false, true] {
        let mut writer = Writer::new(big, false);
        let first = writer.page(&good());
        writer.page(&good());
        writer.link_to(first);
        told(writer.finish(), "form a cycle");
        // A cycle of one directory.
        let mut writer = Writer::new(big, false);
        let first = writer.page(&good());
        writer.link_to(first);
        told(writer.finish(), "form a cycle");
    }
    // A page within itself: its own directory is at the position of the classic file's only page.
    let probe = tiff(&[good().with(330, long(1))]);
    let offset = u32::from_le_bytes([probe[4], probe[5], probe[6], probe[7]]);
    told(tiff(&[good().with(330, long(offset))]), "form a cycle");
}

#[test]
fn endless_chains_end_at_the_limit() {
    let mut writer = Writer::new(false, false);
    for _ in 0..101 {
        writer.page(&good());
    }
    told(writer.finish(), "more than 100 pages");
}

#[test]
fn absurd_sizes_are_told_before_memory_is_taken() {
    told(tiff(&[good().with(256, long(0))]), "ImageWidth is 0");
    told(tiff(&[good().with(256, long(u32::MAX))]), "ImageWidth is 4294967295");
    told(tiff(&[good().without(257)]), "no ImageLength");
    told(tiff(&[good().with(322, short(0))]), "TileWidth is 0");
    told(tiff(&[good().with(277, short(0))]), "SamplesPerPixel is 0");
    told(tiff(&[good().with(277, short(60_000))]), "SamplesPerPixel is 60000");
    told(tiff(&[good().with(284, short(9))]), "PlanarConfiguration is 9");
    told(tiff(&[good().with(256, long(1 << 30))]), "67108864 x 1 tiles in 1 planes, but 2 offsets");
    // One tile of 2^30 x 2^30 pixels.
    let one = PageSpec { segments: vec![vec![0; 10]], ..good() };
    let huge = [256, 257, 322, 323].iter().fold(one, |page, tag| page.with(*tag, long(1 << 30)));
    told(tiff(std::slice::from_ref(&huge)), "are allowed");
    told(tiff(&[huge.with(259, short(7))]), "are allowed");
    // Within the limits, but more than its bytes can hold.
    let lie = |compression: u16| {
        let page = PageSpec { segments: vec![vec![0; 40]], ..good() };
        tiff(&[[256, 257, 322, 323]
            .iter()
            .fold(page, |page, tag| page.with(*tag, long(1100)))
            .with(259, short(compression))])
    };
    told(lie(1), "40 bytes of none cannot hold 3630000");
    told(lie(8), "40 bytes of Deflate cannot hold 3630000");
    told(lie(5), "40 bytes of LZW cannot hold");
    told(lie(32773), "40 bytes of PackBits cannot hold");
    // Omitted strips do not make an arbitrary image size plausible.
    let sparse = PageSpec { segments: vec![Vec::new()], tiled: false, ..good() };
    let sparse = sparse.without(322).without(323).with(256, long(1 << 20)).with(257, long(1 << 20));
    told(tiff(&[sparse]), "are allowed");
    assert!(MEMORY.peak_usage() < MOST, "{} bytes", MEMORY.peak_usage());
}

#[test]
fn tags_are_bounded_and_typed() {
    told(tiff(&[good().with(258, Values::Text("8".into()))]), "tag 258 is not of an integer type");
    told(tiff(&[good().with(270, Values::Text("x".repeat(2 << 20)))]), "only 1048576 are allowed");
    told(tiff(&[good().with(256, Values::Short(Vec::new()))]), "tag 256 has no value");
    told(tiff(&[good().with(258, Values::Short(Vec::new()))]), "BitsPerSample has no value");
    told(tiff(&[good().with(258, Values::Short(vec![8, 8, 16]))]), "samples of different sizes");
    told(tiff(&[good().with(258, Values::Short(vec![12, 12, 12]))]), "samples of 12 bits");
    told(tiff(&[good().with(317, short(3))]), "predictor 3");
    told(tiff(&[good().with(317, short(77))]), "predictor 77");
    told(tiff(&[good().with(259, short(34925))]), "compression LZMA");
    for (tag, words) in [
        (50001, "compression WebP is not supported; convert it: vips tiffsave"),
        (34887, "compression LERC is not supported; convert it: gdal_translate"),
        (50002, "compression JPEG XL is not supported; convert it"),
        (52546, "compression JPEG XL is not supported; convert it"),
        (34934, "compression JPEG XR is not supported; convert it"),
        (60001, "compression number 60001 is not supported"),
    ] {
        let bytes = tiff(&[good().with(259, short(tag))]);
        told(bytes.clone(), words);
        // A slide is refused when it is opened, not at its first tile.
        let error = Slide::from_bytes("bad.tif", bytes, &SlideOptions::default()).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    told(tiff(&[good().with(259, short(6))]), "compression old-style JPEG");
    told(tiff(&[good().with(262, short(8))]), "photometric interpretation 8");
    told(tiff(&[good().with(32997, short(5))]), "a volume of 5 slices");
    // An unknown type in the first entry of the directory.
    let mut bytes = tiff(&[good()]);
    let at = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
    bytes[at + 4] = 99;
    told(bytes, "has a type that TIFF does not know");
}

#[test]
fn damaged_tiles_are_named() {
    for compression in [5, 7, 8, 33003, 33005, 50000] {
        let mut page = page(&Storage { compression: 8, ..Storage::default() }, false).with(259, short(compression));
        page.segments[1] = (0..200u8).collect();
        page.segments[0] = page.segments[1].clone();
        told(tiff(&[page]), "page 0, tile ");
    }
    let mut page = good();
    page.segments[1].truncate(100);
    told(tiff(&[page]), "page 0, tile 1: 100 bytes of none cannot hold 768");
    let page = good().with(324, Values::Long(vec![8, 4_000_000_000]));
    told(tiff(&[page]), "page 0, tile 1: its bytes: 768 bytes from byte 4000000000, but the file ends at");
}

/// Small valid files of all kinds.
fn corpus() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut files: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "tif"))
        .map(|path| std::fs::read(path).expect("a file"))
        .collect();
    for (big, big_endian) in [(false, false), (false, true), (true, false), (true, true)] {
        for compression in [1, 5, 8, 32773, 50000] {
            let storage = Storage { compression, predictor: compression == 8, planar: big, ..Storage::default() };
            let mut writer = Writer::new(big, big_endian);
            writer.page(&page(&storage, big_endian));
            writer.page(&page(&Storage { width: 10, height: 5, ..storage }, big_endian));
            files.push(writer.finish());
        }
    }
    files
}

/// Opens and reads everything; this must never panic or allocate much memory.
fn exercise(bytes: Vec<u8>) {
    let options =
        SlideOptions { limits: LIMITS, cache: Some(hearth_slides::TileCache::new(1 << 20)), ..SlideOptions::default() };
    if let Ok(file) = open(bytes.clone()) {
        for number in 0..file.pages().len().min(4) {
            let _ = file.read(number);
        }
    }
    if let Ok(slide) = Slide::from_bytes("bad.tif", bytes, &options) {
        for level in 0..slide.levels().len() {
            let _ = slide.read_region(level, -3, 5, 40, 40);
        }
        for name in slide.associated_names() {
            let _ = slide.read_associated(name);
        }
        let _ = slide.thumbnail(16);
    }
}

/// Truncates and changes files, `cuts` and `flips` times each, in a reproducible way.
fn damage(files: &[Vec<u8>], cuts: usize, flips: usize) {
    // Panics of decoders print to standard error; only the returned error matters.
    std::panic::set_hook(Box::new(|_| {}));
    let mut state = 1u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for whole in files {
        for _ in 0..cuts {
            exercise(whole[..next(whole.len())].to_vec());
        }
        for _ in 0..flips {
            let mut bytes = whole.clone();
            for _ in 0..1 + next(3) {
                // Half of the changes are where directories usually are: at the start and at the
                // end.
                let at = match next(4) {
                    0 => next(bytes.len().min(2048)),
                    1 => bytes.len() - 1 - next(bytes.len().min(8192)),
                    _ => next(bytes.len()),
                };
                bytes[at] = if next(2) == 0 { next(256) as u8 } else { bytes[at] ^ 1 << next(8) };
            }
            exercise(bytes);
        }
    }
    assert!(MEMORY.peak_usage() < MOST, "{} bytes", MEMORY.peak_usage());
}

#[test]
fn truncated_and_flipped_files_are_errors_or_images() {
    let files = corpus();
    assert!(files.len() > 40);
    damage(&files, 12, 40);
}

/// The same over real files.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn damaged_real_files_are_errors_or_images() {
    let root = std::env::var_os("HEARTH_REAL_DATA").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        std::path::PathBuf::from,
    );
    let mut files = Vec::new();
    for folder in ["wsi", "wsi/tiff_generic", "wsi/derived", "wsi/dicom"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                files.push(std::fs::read(path).expect("a file"));
            }
        }
    }
    assert!(files.len() > 15);
    damage(&files, 10, 30);
}
