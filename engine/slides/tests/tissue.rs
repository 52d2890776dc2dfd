//! Tissue and patches on a slide whose tissue is known, and compared with MONAI.

mod common;

use common::{Storage, Values, page_of, tiff};
use hearth_slides::{GridOptions, Resolution, Slide, SlideOptions, SlidingOptions, TissueOptions, TissueRule};

/// 640 x 480 pixels of glass with a rectangle of stain from (128, 96) to (384, 288), and a level of
/// a quarter of that.
fn slide() -> Slide {
    let level = |width: usize, height: usize, factor: usize| {
        let storage = Storage { width, height, compression: 8, tile: Some((64, 64)), ..Storage::default() };
        page_of(&storage, false, |x, y, c| {
            let stain = (128..384).contains(&(x * factor)) && (96..288).contains(&(y * factor));
            (if stain { [170, 60, 130] } else { [242, 240, 243] })[c]
        })
    };
    let file = tiff(&[level(640, 480, 1), level(160, 120, 4).with(254, Values::Long(vec![1]))]);
    Slide::from_bytes("test.tif", file, &SlideOptions::default()).expect("a slide")
}

#[test]
fn the_mask_is_the_stain() {
    let slide = slide();
    for rule in [TissueRule::Saturation, TissueRule::SaturationAbove(0.3), TissueRule::Foreground] {
        let mask =
            slide.tissue_mask(&TissueOptions { level: Some(1), rule, ..TissueOptions::default() }).expect("a mask");
        assert_eq!((mask.width, mask.height, mask.downsample), (160, 120, 4.0));
        let stain = mask
            .pixels
            .iter()
            .enumerate()
            .all(|(i, p)| *p == ((32..96).contains(&(i % 160)) && (24..72).contains(&(i / 160))));
        assert!(stain, "{rule:?}");
    }
    // The whole slide reduced to 80 pixels.
    let mask = slide.tissue_mask(&TissueOptions { side: 80, ..TissueOptions::default() }).expect("a mask");
    assert_eq!((mask.width, mask.height), (80, 60));
    // A pixel of the mask on an edge has some stain.
    assert!((mask.fraction() - 0.16).abs() < 0.03, "{}", mask.fraction());
}

#[test]
fn the_grid_lies_on_the_tissue() {
    let slide = slide();
    let mask = slide.tissue_mask(&TissueOptions { level: Some(1), ..TissueOptions::default() }).expect("a mask");
    let patches = slide.tissue_grid(&mask, &GridOptions::new(64, 64)).expect("a grid");
    // Columns 128..384; rows 64 (half of it), 128, 192, 256 (half of it).
    let places: Vec<_> = patches.iter().map(|p| (p.x, p.y, p.tissue)).collect();
    let mut wanted = Vec::new();
    for (y, tissue) in [(64, 0.5), (128, 1.0), (192, 1.0), (256, 0.5)] {
        wanted.extend([128, 192, 256, 320].map(|x| (x, y, tissue)));
    }
    assert_eq!(places, wanted);
    let more = slide.tissue_grid(&mask, &GridOptions { min_tissue: 0.51, ..GridOptions::new(64, 64) }).expect("a grid");
    assert_eq!(more.len(), 8);
    // 32 pixels at level 1 are 128 at level 0; a stride of 16 is 64.
    let options = GridOptions {
        resolution: Resolution::Level(1),
        stride: Some((16, 16)),
        min_tissue: 1.0,
        ..GridOptions::new(32, 32)
    };
    let places: Vec<_> = slide.tissue_grid(&mask, &options).expect("a grid").iter().map(|p| (p.x, p.y)).collect();
    assert_eq!(places, [(128, 128), (192, 128), (256, 128)]);
    let all = GridOptions { min_tissue: 0.0, ..GridOptions::new(100, 100) };
    assert_eq!(slide.tissue_grid(&mask, &all).expect("a grid").len(), 6 * 4);
    assert_eq!(slide.tissue_grid(&mask, &GridOptions { beyond_edges: true, ..all }).expect("a grid").len(), 7 * 5);
    assert!(slide.tissue_grid(&mask, &GridOptions::new(0, 5)).is_err());
}

/// Recorded from MONAI 1.6.1: `iter_patch_position` with an image of 480 x 640 (rows, columns).
#[test]
fn sliding_windows_are_monais() {
    let slide = slide();
    let places = |options: &SlidingOptions| {
        slide.sliding_grid(options).expect("a grid").iter().map(|p| (p.y, p.x)).collect::<Vec<_>>()
    };
    let options = SlidingOptions { size: (200, 150), level: 0, overlap: (0.0, 0.0), offset: (0, 0) };
    assert_eq!(
        places(&options),
        [(0, 0), (0, 200), (0, 400), (150, 0), (150, 200), (150, 400), (300, 0), (300, 200), (300, 400)]
    );
    let quarter = SlidingOptions { size: (75, 75), level: 1, overlap: (0.25, 0.5), offset: (-7, 11) };
    assert_eq!(places(&quarter), [(11, -7), (11, 218), (161, -7), (161, 218)]);
    assert!(slide.sliding_grid(&SlidingOptions { overlap: (1.0, 0.0), ..options }).is_err());
    assert!(slide.sliding_grid(&SlidingOptions { level: 2, ..options }).is_err());
}
