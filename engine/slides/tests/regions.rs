//! Levels, regions, caches and threads, on slides written by hand.

mod common;

use std::collections::HashSet;
use std::path::Path;

use common::{PageSpec, Storage, Values, page_of, tiff, value};
use hearth_slides::{Background, Color, Resolution, SampleType, Slide, SlideError, SlideOptions, TileCache};
use proptest::prelude::*;
use serde_json::Value;

/// A smooth picture: the value at a position of level 0, in units of its pixels.
fn shade(x: f64, y: f64, c: usize) -> f64 {
    [20.0 + x / 3.0, 20.0 + y / 3.0, 200.0 - (x + y) / 8.0][c]
}

fn level(width: usize, height: usize, factor: f64) -> PageSpec {
    let at = |i: usize| (i as f64 + 0.5) * factor - 0.5;
    let storage = Storage { width, height, compression: 8, tile: Some((32, 16)), ..Storage::default() };
    page_of(&storage, false, |x, y, c| shade(at(x), at(y), c).round() as u32)
}

fn reduced(page: PageSpec) -> PageSpec {
    page.with(254, Values::Long(vec![1]))
}

/// Three levels, 300 x 200, 150 x 100 and 75 x 50, in tiles of 32 x 16.
fn pyramid() -> Vec<u8> {
    let first = level(300, 200, 1.0)
        .with(282, Values::Rational(40_000, 1))
        .with(283, Values::Rational(20_000, 1))
        .with(296, Values::Short(vec![3]));
    tiff(&[first, reduced(level(150, 100, 2.0)), reduced(level(75, 50, 4.0))])
}

fn open(bytes: Vec<u8>) -> Slide {
    open_with(bytes, Background::White)
}

/// Each with its own cache, so that tests do not share one.
fn open_with(bytes: Vec<u8>, background: Background) -> Slide {
    let options = SlideOptions { background, cache: Some(TileCache::new(64 << 20)), ..SlideOptions::default() };
    Slide::from_bytes("test.tif", bytes, &options).expect("a slide")
}

fn sizes(slide: &Slide) -> Vec<(usize, usize)> {
    slide.levels().iter().map(|l| (l.width, l.height)).collect()
}

#[test]
fn levels_are_found_wherever_they_stand() {
    let three = vec![(300, 200), (150, 100), (75, 50)];
    let slide = open(pyramid());
    assert_eq!(slide.vendor(), "generic-tiff");
    assert_eq!(sizes(&slide), three);
    assert_eq!(slide.levels()[2].downsample, 4.0);
    assert_eq!((slide.levels()[1].tile_width, slide.levels()[1].tile_height), (32, 16));
    // 40,000 and 20,000 pixels per centimetre.
    assert_eq!(slide.mpp(), Some([0.25, 0.5]));
    assert_eq!(slide.level_mpp(2), Some([1.0, 2.0]));
    assert_eq!(slide.properties()["tiff.XResolution"], "40000");

    // Without any mark, by their sizes.
    assert_eq!(sizes(&open(tiff(&[level(300, 200, 1.0), level(150, 100, 2.0), level(75, 50, 4.0)]))), three);
    // Nested in the page.
    let mut main = level(300, 200, 1.0);
    main.below = vec![reduced(level(75, 50, 4.0)), reduced(level(150, 100, 2.0))];
    assert_eq!(sizes(&open(tiff(&[main.clone()]))), three);
    // Another shape, other samples, focus planes: not levels.
    let gray = Storage { width: 150, height: 100, samples: 1, ..Storage::default() };
    let others = [
        level(300, 200, 1.0),
        reduced(level(150, 140, 2.0)),
        reduced(page_of(&gray, false, |_, _, _| 0)),
        level(300, 200, 1.0),
    ];
    assert_eq!(sizes(&open(tiff(&others))), [(300, 200)]);
    // Sizes are rounded: 299 / 2, 199 / 2.
    assert_eq!(sizes(&open(tiff(&[level(299, 199, 1.0), level(149, 99, 2.0)]))).len(), 2);
}

#[test]
fn aperio_pages_are_levels_and_images() {
    let text = |page: PageSpec, text: &str| page.with(270, Values::Text(text.into()));
    let strips = |width, height| {
        let storage = Storage { width, height, tile: None, rows_per_strip: 8, ..Storage::default() };
        page_of(&storage, false, value)
    };
    let head = "Aperio Image Library v11\r\n300x200 (32x16)|AppMag = 20|MPP = 0.4990|Date = 12/29/09";
    let file = tiff(&[
        text(level(300, 200, 1.0), head),
        text(strips(60, 40), "Aperio Image Library v11\r\n300x200 -> 60x40 - |AppMag = 20"),
        level(75, 50, 4.0),
        text(strips(30, 30), "Aperio Image Library v11\r\nlabel 30x30"),
        text(strips(90, 30), "Aperio Image Library v11\r\nmacro 90x30"),
    ]);
    let slide = open(file);
    assert_eq!(slide.vendor(), "aperio");
    assert_eq!(sizes(&slide), [(300, 200), (75, 50)]);
    assert_eq!((slide.mpp(), slide.objective_power()), (Some([0.499, 0.499]), Some(20.0)));
    assert_eq!(slide.associated_names(), ["label", "macro", "thumbnail"]);
    assert_eq!(slide.properties()["aperio.Date"], "12/29/09");
    let thumbnail = slide.read_associated("thumbnail").expect("a thumbnail");
    assert_eq!((thumbnail.width, thumbnail.height), (60, 40));
    assert_eq!(thumbnail.as_u8().expect("u8")[..3], [0, 1, 2].map(|c| value(0, 0, c) as u8));
    let error = slide.read_associated("overview").expect_err("none").to_string();
    assert!(error.contains("no image \"overview\"") && error.contains("\"macro\""), "{error}");
}

#[test]
fn philips_levels_lose_their_padding() {
    let object = |number: usize, spacing: f64| {
        format!(
            r#"<DataObject ObjectType="PixelDataRepresentation">
                <Attribute Name="DICOM_PIXEL_SPACING" Group="0x0028">&quot;{spacing}&quot; &quot;{spacing}&quot;</Attribute>
                <Attribute Name="PIIM_PIXEL_DATA_REPRESENTATION_NUMBER">{number}</Attribute>
            </DataObject>"#
        )
    };
    let xml = format!(
        r#"<?xml version="1.0" encoding="UTF-8" ?><DataObject ObjectType="DPUfsImport"><Attribute Name="PIM_DP_SCANNED_IMAGES"><Array>
        <DataObject ObjectType="DPScannedImage"><Attribute Name="PIIM_PIXEL_DATA_REPRESENTATION_SEQUENCE"><Array>{}{}</Array></Attribute>
        </DataObject></Array></Attribute></DataObject>"#,
        object(0, 0.00025),
        object(1, 0.0005)
    );
    let first = level(320, 208, 1.0).with(270, Values::Text(xml)).with(305, Values::Text("Philips DP v1.0".into()));
    let macro_image = level(64, 32, 1.0).with(270, Values::Text("Macro".into()));
    // 160 x 104 pixels, padded to whole tiles of 32 x 16.
    let slide = open(tiff(&[first, level(160, 112, 2.0), macro_image]));
    assert_eq!(slide.vendor(), "philips");
    assert_eq!(sizes(&slide), [(320, 208), (160, 104)]);
    assert_eq!(slide.levels()[1].downsample, 2.0);
    assert_eq!(slide.mpp(), Some([0.25, 0.25]));
    assert_eq!(slide.associated_names(), ["macro"]);
    // Padding is not part of the image.
    let below = slide.read_region(1, 0, 104, 10, 8).expect("a region");
    assert!(below.as_u8().expect("u8").iter().all(|v| *v == 255));
}

#[test]
fn other_vendors_are_named() {
    let with = |tag, text: &str| level(300, 200, 1.0).with(tag, Values::Text(text.into()));
    let leica = r#"<scn xmlns="http://www.leica-microsystems.com/scn/2010/10/01"/>"#;
    let files = [
        (level(300, 200, 1.0).with(65420, Values::Long(vec![1])), "Hamamatsu"),
        (with(700, "<x><iScan Magnification=\"20\"/></x>"), "Ventana"),
        (with(270, leica), "Leica"),
        (with(305, "MedScan"), "Trestle"),
    ];
    for (page, vendor) in files {
        let error = Slide::from_bytes("test.tif", tiff(&[page]), &SlideOptions::default()).expect_err(vendor);
        assert!(matches!(error, SlideError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(vendor) && error.to_string().contains("`openslide`"), "{error}");
    }
}

/// The rectangle of a picture, with `outside` around it.
fn crop(slide: &Slide, at: usize, (x, y): (i64, i64), (width, height): (usize, usize), outside: [u8; 3]) -> Vec<u8> {
    let size = slide.levels()[at];
    let whole = slide.read_region(at, 0, 0, size.width, size.height).expect("the level");
    let mut out = Vec::new();
    for row in y..y + height as i64 {
        for column in x..x + width as i64 {
            let inside = (0..size.width as i64).contains(&column) && (0..size.height as i64).contains(&row);
            if inside {
                out.extend(whole.pixel(column as usize, row as usize).iter().map(|v| *v as u8));
            } else {
                out.extend(outside);
            }
        }
    }
    out
}

#[test]
fn a_level_is_what_was_written() {
    let slide = open(pyramid());
    for (at, factor) in [(0, 1.0), (1, 2.0), (2, 4.0)] {
        let size = slide.levels()[at];
        let whole = slide.read_region(at, 0, 0, size.width, size.height).expect("the level");
        for (x, y) in [(0, 0), (size.width - 1, size.height - 1), (33, 17), (31, 16), (64, 48)] {
            let wanted =
                [0, 1, 2].map(|c| shade((x as f64 + 0.5) * factor - 0.5, (y as f64 + 0.5) * factor - 0.5, c).round());
            assert_eq!(whole.pixel(x, y), wanted, "level {at}, {x}, {y}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_region_is_a_crop(at in 0usize..3, x in -80i64..360, y in -60i64..260, width in 0usize..150, height in 0usize..150) {
        thread_local!(static SLIDE: Slide = open_with(pyramid(), Background::Rgb([1, 2, 3])));
        SLIDE.with(|slide| {
            let region = slide.read_region(at, x, y, width, height).expect("a region");
            prop_assert_eq!((region.width, region.height, region.channels), (width, height, 3));
            prop_assert!(region.as_u8().expect("u8") == crop(slide, at, (x, y), (width, height), [1, 2, 3]));
            Ok(())
        })?;
    }
}

#[test]
fn only_tiles_that_are_touched_are_decoded() {
    let slide = open(pyramid());
    assert_eq!(slide.stats().tiles_decoded, 0);
    // Within one tile of 32 x 16; then over a corner of four; then outside.
    slide.read_region(0, 33, 17, 20, 10).expect("a region");
    assert_eq!(slide.stats().tiles_decoded, 1);
    slide.read_region(0, 63, 31, 2, 2).expect("a region");
    assert_eq!(slide.stats().tiles_decoded, 4);
    slide.read_region(0, -500, 0, 400, 100).expect("a region");
    slide.read_region(0, 300, 0, 10, 10).expect("a region");
    slide.read_region(0, 10, 10, 0, 0).expect("a region");
    assert_eq!((slide.stats().tiles_decoded, slide.stats().tiles_wanted), (4, 5));
    // Any region decodes the tiles between its corners, each once.
    let mut touched: HashSet<(i64, i64)> = [(1, 1), (2, 1), (1, 2), (2, 2)].into();
    for (x, y, w, h) in [(-10, 5, 100, 20), (250, 190, 80, 80), (100, 0, 1, 200)] {
        slide.read_region(0, x, y, w, h).expect("a region");
        for row in y.max(0) / 16..=(y + h as i64 - 1).min(199) / 16 {
            touched.extend((x.max(0) / 32..=(x + w as i64 - 1).min(299) / 32).map(|column| (column, row)));
        }
        assert_eq!(slide.stats().tiles_decoded, touched.len() as u64);
    }
    let file = slide.clone();
    assert_eq!(file.stats(), slide.stats());
}

#[test]
fn one_cache_serves_all_and_keeps_its_bound() {
    let cache = TileCache::new(20_000);
    let options = SlideOptions { cache: Some(cache.clone()), ..SlideOptions::default() };
    let slides = [1, 2].map(|_| Slide::from_bytes("test.tif", pyramid(), &options).expect("a slide"));
    let first = slides[0].read_region(0, 0, 0, 300, 200).expect("a region");
    std::thread::scope(|scope| {
        for slide in &slides {
            for turn in 0..2 {
                let (first, cache) = (&first, &cache);
                scope.spawn(move || {
                    for i in 0..60i64 {
                        let (x, y) = (i * 37 % 250 + turn, i * 53 % 150);
                        let region = slide.read_region(0, x, y, 50, 50).expect("a region");
                        for (dx, dy) in [(0, 0), (49, 49), (25, 3)] {
                            assert_eq!(region.pixel(dx, dy), first.pixel(x as usize + dx, y as usize + dy));
                        }
                        assert!(cache.bytes() <= 20_000);
                    }
                });
            }
        }
    });
    assert!(!cache.is_empty());
    drop(slides);
    assert!(cache.is_empty(), "tiles stay behind");
}

#[test]
fn regions_are_placed_by_level_0_as_in_openslide() {
    let slide = open(pyramid());
    let by_location = slide.read_region_at((101, 60), 2, (20, 10)).expect("a region");
    // 101 / 4 is nearest to 25.
    assert_eq!(by_location, slide.read_region(2, 25, 15, 20, 10).expect("a region"));
    let error = slide.read_region_at((0, 0), 3, (1, 1)).expect_err("no such level").to_string();
    assert!(error.contains("level 3 of 3"), "{error}");
}

#[test]
fn levels_have_resolutions() {
    let slide = open(pyramid());
    assert_eq!(slide.level_for(Resolution::Downsample(2.0), 0.0).expect("a level"), 1);
    assert_eq!(slide.level_for(Resolution::Downsample(4.1), 0.05).expect("a level"), 2);
    let error = slide.level_for(Resolution::Downsample(3.0), 0.05).expect_err("none").to_string();
    assert!(error.contains("1.0000, 2.0000, 4.0000"), "{error}");
    // Pixels are not square.
    assert!(slide.level_for(Resolution::Mpp(0.25), 0.05).is_err());
    let error = slide.level_for(Resolution::Power(20.0), 0.05).expect_err("unknown").to_string();
    assert!(error.contains("does not state its objective power"), "{error}");
    assert!(slide.level_for(Resolution::Mpp(-1.0), 0.05).is_err());
    assert_eq!([0.5, 1.0, 1.9, 2.0, 3.9, 100.0].map(|d| slide.best_level_for_downsample(d)), [0, 0, 0, 1, 1, 2]);
}

/// The picture is linear, so with any filter its middle stays in place.
#[test]
fn any_resolution_shows_the_same_place() {
    let slide = open(pyramid());
    for (scale, place) in [(1.5, (40.0, 30.0)), (3.0, (41.0, 30.5)), (6.0, (30.0, 30.0)), (0.5, (50.25, 60.0))] {
        let region = slide.read_at(place, Resolution::Downsample(scale), (24, 16)).expect("a region");
        for (x, y) in [(0, 0), (23, 15), (7, 9)] {
            let at = |i: usize, start: f64| start + (i as f64 + 0.5) * scale - 0.5;
            for (c, got) in region.pixel(x, y).into_iter().enumerate() {
                let wanted = shade(at(x, place.0), at(y, place.1), c);
                assert!((got - wanted).abs() <= 1.3, "{scale}: {got} at {x}, {y}, channel {c}, expected {wanted}");
            }
        }
    }
    // Micrometres per pixel along each axis: 0.25 and 0.5 at level 0.
    let region = slide.read_at((0.0, 0.0), Resolution::Mpp(1.0), (10, 10)).expect("a region");
    let wanted = shade(9.5 * 4.0 - 0.5, 9.5 * 2.0 - 0.5, 0);
    assert!((region.pixel(9, 9)[0] - wanted).abs() < 1.3);
}

#[test]
fn neighbours_fit_together_at_any_resolution() {
    let slide = open(pyramid());
    let both = slide.read_at((10.0, 20.0), Resolution::Downsample(2.7), (60, 20)).expect("a region");
    let left = slide.read_at((10.0, 20.0), Resolution::Downsample(2.7), (30, 20)).expect("a region");
    let right = slide.read_at((10.0 + 30.0 * 2.7, 20.0), Resolution::Downsample(2.7), (30, 20)).expect("a region");
    for y in 0..20 {
        for x in 0..60 {
            let part = if x < 30 { left.pixel(x, y) } else { right.pixel(x - 30, y) };
            let far = both.pixel(x, y).iter().zip(&part).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far <= 1.0, "{x}, {y}: {far}");
        }
    }
}

/// Channels without an opacity are reduced separately, as in a slide of that channel alone.
#[test]
fn channels_do_not_weigh_each_other() {
    let slide_of = |storage: &Storage, color: u16, value: &dyn Fn(usize, usize, usize) -> u32| {
        let page = page_of(storage, false, value).with(262, Values::Short(vec![color]));
        open_with(tiff(&[page]), Background::Black)
    };
    const GRAY: u16 = 1;
    const CMYK: u16 = 5;
    for (samples, bytes, color) in [(2, 1, GRAY), (2, 2, GRAY), (4, 2, GRAY), (4, 1, CMYK)] {
        let all = Storage { width: 70, height: 50, samples, bytes, ..Storage::default() };
        let read = |slide: Slide| slide.read_at((0.0, 0.0), Resolution::Downsample(2.5), (28, 20)).expect("a region");
        let together = read(slide_of(&all, color, &value));
        assert_eq!(together.channels, samples);
        for channel in 0..samples {
            let alone = read(slide_of(&Storage { samples: 1, ..all }, GRAY, &|x, y, _| value(x, y, channel)));
            for (x, y) in (0..20).flat_map(|y| (0..28).map(move |x| (x, y))) {
                let (got, wanted) = (together.pixel(x, y)[channel], alone.pixel(x, y)[0]);
                assert!((got - wanted).abs() <= 1.0, "{color}, {x}, {y}, channel {channel}: {got}, alone {wanted}");
            }
        }
    }
    // Transparent pixels do not contribute colour: red next to transparent green.
    let storage = Storage { samples: 4, ..Storage::default() };
    let page = page_of(&storage, false, |x, _, c| [[255, 0, 0, 255], [0, 255, 0, 0]][x % 2][c]);
    let slide = open(tiff(&[page.with(338, Values::Short(vec![2]))]));
    let pixel = slide.read_at((0.0, 0.0), Resolution::Downsample(2.0), (10, 5)).expect("a region").pixel(5, 2);
    assert!(pixel[0] >= 254.0 && pixel[1] <= 1.0 && (pixel[3] - 127.5).abs() <= 1.0, "{pixel:?}");
}

/// `recorded/reductions.py`: all types of samples, any number of channels, an opacity, edges, magnification.
#[test]
fn regions_are_reduced_as_pillow_does() {
    let recorded: Value = serde_json::from_str(include_str!("recorded/reductions.json")).expect("JSON");
    for case in recorded["cases"].as_array().expect("cases") {
        let name = case["file"].as_str().expect("a name");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
        let of = |key: &str| serde_json::from_value(case[key].clone()).expect("numbers");
        let (location, size): ((f64, f64), (f64, f64)) = (of("location"), of("size"));
        let size = (size.0 as usize, size.1 as usize);
        let scale = case["scale"].as_f64().expect("a number");
        let slide = Slide::open(&path).expect("a slide");
        let got = slide.read_at(location, Resolution::Downsample(scale), size).expect("a region");
        // Pillow rounds rows to whole numbers before it sums over columns. Its only float type has
        // 32 bits.
        let near = match got.samples.kind() {
            SampleType::U8 | SampleType::I32 => 1.0,
            SampleType::I8 | SampleType::U16 => 0.52,
            SampleType::U32 => 2.0,
            _ => 0.05,
        };
        for (y, row) in case["rows"].as_array().expect("rows").iter().enumerate() {
            let wanted: Vec<f64> =
                row.as_str().expect("text").split(' ').map(|number| number.parse().expect("a number")).collect();
            assert_eq!(wanted.len(), size.0 * got.channels, "{name}");
            for (x, wanted) in wanted.chunks_exact(got.channels).enumerate() {
                // It also rounds the opacity and products with it.
                let near = if got.color == Color::Rgba { near + 510.0 / wanted[3].max(1.0) } else { near };
                for (got, wanted) in got.pixel(x, y).into_iter().zip(wanted) {
                    assert!((got - wanted).abs() <= near, "{name}, {scale}, {x}, {y}: {got}, Pillow says {wanted}");
                }
            }
        }
    }
}

#[test]
fn a_thumbnail_is_the_whole_slide() {
    let slide = open(pyramid());
    let small = slide.thumbnail(30).expect("a thumbnail");
    assert_eq!((small.width, small.height), (30, 20));
    let middle = |i: usize| (i as f64 + 0.5) * 10.0 - 0.5;
    for (x, y) in [(1, 1), (28, 18), (15, 10)] {
        for (c, got) in small.pixel(x, y).into_iter().enumerate() {
            assert!((got - shade(middle(x), middle(y), c)).abs() <= 1.3);
        }
    }
    // No background bleeds in at the edges.
    assert!(small.pixel(0, 10)[0] < 30.0 && small.pixel(15, 19)[1] < 90.0);
    assert_eq!(slide.thumbnail(5000).expect("a thumbnail").width, 300);
    assert!(slide.thumbnail(0).is_err());
}

#[test]
fn backgrounds_follow_the_samples() {
    let storage = Storage { bytes: 2, samples: 1, ..Storage::default() };
    let file = tiff(&[page_of(&storage, false, |_, _, _| 5)]);
    for (background, wanted) in
        [(Background::White, 65_535.0), (Background::Black, 0.0), (Background::Rgb([0, 30, 60]), 7710.0)]
    {
        let region = open_with(file.clone(), background).read_region(0, -1, -1, 2, 2).expect("a region");
        assert_eq!((region.pixel(0, 0), region.pixel(1, 1)), (vec![wanted], vec![5.0]));
    }
    // A tile that the file omits is also background.
    let mut page = common::page(&Storage::default(), false);
    page.segments[0] = Vec::new();
    let slide = open(tiff(&[page]));
    let region = slide.read_region(0, 14, 0, 4, 1).expect("a region");
    assert_eq!(region.pixel(0, 0), [255.0; 3]);
    assert_eq!(region.pixel(2, 0)[0], f64::from(value(16, 0, 0) as u8));
}
