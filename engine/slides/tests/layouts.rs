//! Every layout and storage of pixels, written by hand and by the `tiff` crate, read back exactly.

mod common;

use std::io::Cursor;

use common::{PageSpec, Storage, Values, Writer, page, page_of, tiff, value};
use hearth_slides::{Color, Limits, Raster, Samples, Slide, SlideOptions, TiffFile};
use proptest::prelude::*;
use tiff::encoder::{Compression, DeflateLevel, Predictor, TiffEncoder, colortype};

fn open(bytes: Vec<u8>) -> TiffFile {
    TiffFile::from_bytes("test.tif", bytes, Limits::default()).expect("a TIFF")
}

fn expected(s: &Storage) -> Samples {
    let all = (0..s.height).flat_map(|y| (0..s.width).flat_map(move |x| (0..s.samples).map(move |c| value(x, y, c))));
    match s.bytes {
        1 => Samples::U8(all.map(|v| v as u8).collect()),
        2 => Samples::U16(all.map(|v| v as u16).collect()),
        _ => Samples::U32(all.collect()),
    }
}

fn storage() -> impl Strategy<Value = Storage> {
    let sizes = (1usize..70, 1usize..70, 1usize..6, prop::sample::select(vec![1usize, 2, 4]));
    let cuts = (prop::option::of((1usize..40, 1usize..40)), 1usize..80);
    let codec = (any::<bool>(), any::<bool>(), prop::sample::select(vec![1u16, 5, 8, 32773, 50000]));
    (sizes, cuts, codec).prop_map(
        |((width, height, samples, bytes), (tile, rows), (planar, predictor, compression))| Storage {
            width,
            height,
            samples,
            bytes,
            tile,
            rows_per_strip: rows.min(height),
            planar,
            predictor,
            compression,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_is_read(s in storage(), big in any::<bool>(), big_endian in any::<bool>()) {
        let mut writer = Writer::new(big, big_endian);
        writer.page(&page(&s, big_endian));
        let raster = open(writer.finish()).read(0).expect("readable");
        prop_assert_eq!((raster.width, raster.height, raster.channels), (s.width, s.height, s.samples));
        prop_assert_eq!(raster.samples, expected(&s));
    }
}

/// Encodes with the `tiff` crate, an independent implementation.
macro_rules! by_tiff_crate {
    ($color:ty, $values:expr, $width:expr, $height:expr, $compression:expr, $predictor:expr) => {{
        let mut bytes = Cursor::new(Vec::new());
        let mut encoder =
            TiffEncoder::new(&mut bytes).expect("an encoder").with_compression($compression).with_predictor($predictor);
        encoder.write_image::<$color>($width, $height, $values).expect("encoded");
        open(bytes.into_inner()).read(0).expect("readable")
    }};
}

#[test]
fn the_tiff_crates_files_are_read() {
    let bytes: Vec<u8> = (0..40 * 30 * 4).map(|i| value(i, 3, 1) as u8).collect();
    let words: Vec<u16> = (0..40 * 30 * 3).map(|i| value(i, 5, 2) as u16).collect();
    let floats: Vec<f32> = (0..40 * 30).map(|i| (i as f32).sin() * 1e4).collect();
    let codecs = [
        Compression::Uncompressed,
        Compression::Lzw,
        Compression::Packbits,
        Compression::Deflate(DeflateLevel::Balanced),
    ];
    for codec in codecs {
        for predictor in [Predictor::None, Predictor::Horizontal] {
            let raster = by_tiff_crate!(colortype::RGBA8, &bytes, 40, 30, codec, predictor);
            assert_eq!((raster.color, raster.channels), (Color::Rgba, 4));
            assert_eq!(raster.samples, Samples::U8(bytes.clone()));
            let raster = by_tiff_crate!(colortype::Gray8, &bytes[..1200], 40, 30, codec, predictor);
            assert_eq!((raster.color, raster.samples), (Color::Gray, Samples::U8(bytes[..1200].to_vec())));
            let raster = by_tiff_crate!(colortype::RGB16, &words, 40, 30, codec, predictor);
            assert_eq!((raster.bits(), raster.samples), (16, Samples::U16(words.clone())));
        }
        let raster = by_tiff_crate!(colortype::Gray32Float, &floats, 40, 30, codec, Predictor::None);
        assert_eq!(raster.samples, Samples::F32(floats.clone()));
    }
}

fn gray(width: usize, bits: u16, photometric: u16, row_bytes: &[u8]) -> PageSpec {
    let short = |v: u16| Values::Short(vec![v]);
    let tags = vec![
        (256, short(width as u16)),
        (257, short(1)),
        (258, short(bits)),
        (262, short(photometric)),
        (278, short(1)),
    ];
    PageSpec { tags, segments: vec![row_bytes.to_vec()], ..PageSpec::default() }
}

fn read(page: PageSpec) -> Raster {
    open(tiff(&[page])).read(0).expect("readable")
}

#[test]
fn small_samples_are_stretched() {
    assert_eq!(
        read(gray(10, 1, 1, &[0b1010_0000, 0b0100_0000])).samples,
        Samples::U8(vec![255, 0, 255, 0, 0, 0, 0, 0, 0, 255])
    );
    assert_eq!(read(gray(3, 4, 1, &[0x0F, 0x30])).samples, Samples::U8(vec![0, 255, 51]));
    // White is zero.
    assert_eq!(read(gray(3, 4, 0, &[0x0F, 0x30])).samples, Samples::U8(vec![255, 0, 204]));
    assert_eq!(read(gray(2, 16, 0, &[1, 0, 0xFF, 0xFF])).samples, Samples::U16(vec![65_534, 0]));
    // The lowest bit first.
    let reversed = gray(8, 1, 1, &[0b0000_0011]).with(266, Values::Short(vec![2]));
    assert_eq!(read(reversed).samples, Samples::U8(vec![255, 255, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn palettes_become_rgb() {
    let mut table = vec![0u16; 48];
    (table[1], table[16 + 1], table[32 + 1]) = (65_535, 0x80_00, 257);
    table[32 + 15] = 65_535;
    let page = gray(3, 4, 3, &[0x1F, 0x00]).with(320, Values::Short(table.clone()));
    let raster = read(page.clone());
    assert_eq!((raster.color, raster.channels), (Color::Rgb, 3));
    assert_eq!(raster.samples, Samples::U8(vec![255, 128, 1, 0, 0, 255, 0, 0, 0]));
    let error =
        open(tiff(&[page.with(320, Values::Short(table[..40].to_vec()))])).read(0).expect_err("a short palette");
    assert!(error.to_string().contains("palette of 40 values, expected 48"), "{error}");
}

/// As in PIL: a palette has its indices, and single bits are 0 and 1.
#[test]
fn label_maps_keep_their_numbers() {
    let labels = |page: PageSpec| open(tiff(&[page])).with_labels().read(0).expect("readable");
    let bits = labels(gray(10, 1, 1, &[0b1010_0000, 0b0100_0000]));
    assert_eq!(bits.samples, Samples::U8(vec![1, 0, 1, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(labels(gray(3, 1, 0, &[0b1010_0000])).samples, Samples::U8(vec![0, 1, 0]));
    let palette = labels(gray(3, 4, 3, &[0x1F, 0x00]).with(320, Values::Short(vec![7; 48])));
    assert_eq!((palette.channels, palette.samples), (1, Samples::U8(vec![1, 15, 0])));
    assert_eq!(labels(gray(3, 4, 1, &[0x0F, 0x30])).samples, Samples::U8(vec![0, 255, 51]), "greys are whole values");
}

/// Pages of strips without a mark are levels if both sides are halved.
#[test]
fn a_thumbnail_is_no_level() {
    let strips = |width, height| Storage { width, height, tile: None, rows_per_strip: height, ..Storage::default() };
    let tiles = |width, height| Storage { tile: Some((16, 16)), ..strips(width, height) };
    let plain = |storage: Storage| page(&storage, false);
    let marked = |storage: Storage| plain(storage).with(254, Values::Long(vec![1]));
    let levels = |pages: Vec<PageSpec>| {
        let slide = Slide::from_bytes("a.tif", tiff(&pages), &SlideOptions::default()).expect("a slide");
        slide.levels().iter().map(|level| (level.width, level.height)).collect::<Vec<_>>()
    };
    assert_eq!(levels(vec![plain(strips(100, 80)), plain(strips(37, 30))]), [(100, 80)]);
    assert_eq!(levels(vec![plain(strips(100, 80)), marked(strips(37, 30))]), [(100, 80), (37, 30)]);
    assert_eq!(levels(vec![plain(tiles(100, 80)), plain(tiles(37, 30))]), [(100, 80), (37, 30)]);
    let halved = vec![plain(strips(101, 80)), plain(strips(50, 40)), plain(strips(26, 20))];
    assert_eq!(levels(halved), [(101, 80), (50, 40), (26, 20)]);
    assert_eq!(levels(vec![plain(strips(100, 80)), plain(strips(33, 27))]), [(100, 80)]);
}

#[test]
fn ycbcr_without_jpeg_is_converted() {
    let pixels: [[u8; 3]; 2] = [[76, 85, 255], [255, 128, 128]];
    let s = Storage { width: 2, height: 1, tile: None, rows_per_strip: 1, ..Storage::default() };
    let page = page_of(&s, false, |x, _, c| u32::from(pixels[x][c])).with(262, Values::Short(vec![6]));
    let raster = read(page.clone().with(530, Values::Short(vec![1, 1])));
    assert_eq!(raster.samples, Samples::U8(vec![254, 0, 0, 255, 255, 255]));
    // Subsampled colours are the default of YCbCr, and have another layout.
    let error = open(tiff(&[page])).read(0).expect_err("not taken");
    assert!(error.to_string().contains("fewer colour samples"), "{error}");
}

#[test]
fn tiles_that_are_left_out_are_zero_in_plain_images() {
    let mut page = page(&Storage::default(), false);
    page.segments[1] = Vec::new();
    let raster = read(page);
    let pixels = raster.as_u8().expect("u8");
    assert_eq!(
        pixels[15 * 3..20 * 3],
        [&[value(15, 0, 0) as u8, value(15, 0, 1) as u8, value(15, 0, 2) as u8][..], &[0; 12]].concat()
    );
}
