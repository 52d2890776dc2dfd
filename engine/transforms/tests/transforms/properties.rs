//! Properties for all parameters: the inverse, the position in the world, lazy runs.

use hearth_image::spatial::{GridMode, GridPadding, Lazy, ResizeMode};
use hearth_image::{Image, affine, host_device};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform};
use proptest::prelude::*;

type Matrix = hearth_image::Affine;

/// Numbers from 0 to 1 from which the parameters of a step are computed.
type Numbers = [f64; 8];

fn numbers() -> impl Strategy<Value = Numbers> {
    prop::array::uniform8(0.0..1.0f64)
}

/// A whole number from `low` to `high`.
fn whole(at: f64, low: i64, high: i64) -> i64 {
    low + (at * (high - low + 1) as f64) as i64
}

fn pick<T: Copy>(from: &[T], at: f64) -> T {
    from[(at * from.len() as f64) as usize]
}

/// A number from `low` to `high`.
fn between(at: f64, low: f64, high: f64) -> f64 {
    low + at * (high - low)
}

/// Steps that move voxels without losing any.
const LOSSLESS: usize = 11;
/// All steps that move voxels.
const MOVES: usize = 18;

fn moves(which: usize, n: Numbers) -> Box<dyn Transform> {
    let key = "image";
    let planes = [[0, 1], [1, 2], [2, 0], [1, 0], [-1, -2], [0, -1]];
    let methods = [PadMethod::Symmetric, PadMethod::End];
    let sizes = |low, high| [whole(n[0], low, high), whole(n[1], low, high), whole(n[2], low, high)];
    match which {
        0 => {
            let axes: Vec<i64> = (0..3).filter(|axis| n[*axis as usize] < 0.5).collect();
            Box::new(Flip::new(key).spatial_axis((!axes.is_empty()).then(|| axes.into())))
        }
        1 => Box::new(Rotate90::new(key).k(whole(n[0], -4, 4)).spatial_axes(pick(&planes, n[1]))),
        2 => {
            let [x, y, z] = pick(&PERMUTATIONS, n[0]).map(|axis| axis + 1);
            Box::new(Transpose::new(key, [0, x, y, z]))
        }
        3 => Box::new(Orientation::new(key, &code(n))),
        4 => Box::new(RandFlip::new(key).prob(n[0]).spatial_axis(Some(whole(n[1], -3, 2).into()))),
        5 => Box::new(RandAxisFlip::new(key).prob(n[0])),
        6 => Box::new(
            RandRotate90::new(key).prob(n[0]).max_k(whole(n[1], 1, 3) as u64).spatial_axes(pick(&planes, n[2])),
        ),
        7 => {
            let width = |at: f64| whole(at, 0, 3) as usize;
            Box::new(Pad::new(key, [[0, 0], [width(n[0]), width(n[1])], [width(n[2]), 0], [width(n[3]), width(n[4])]]))
        }
        8 => Box::new(SpatialPad::new(key, sizes(1, 12)).method(pick(&methods, n[3]))),
        9 => Box::new(DivisiblePad::new(key, sizes(1, 6)).method(pick(&methods, n[3]))),
        10 => Box::new(BorderPad::new(key, sizes(0, 3))),
        11 => {
            let start = sizes(0, 2);
            Box::new(SpatialCrop::between(key, start, start.map(|s| s + whole(n[3], 1, 4))))
        }
        12 => Box::new(CenterSpatialCrop::new(key, sizes(1, 9))),
        13 => Box::new(CenterScaleCrop::new(key, [0, 1, 2].map(|i| between(n[i], 0.3, 1.0)))),
        14 => Box::new(RandSpatialCrop::new(key, sizes(1, 4)).random_size(n[3] < 0.5)),
        15 => Box::new(RandScaleCrop::new(key, between(n[0], 0.3, 1.0)).random_center(n[1] < 0.5)),
        16 => Box::new(ResizeWithPadOrCrop::new(key, sizes(1, 10)).method(pick(&methods, n[3]))),
        _ => Box::new(
            CropForeground::new(key, key)
                .select_fn(between(n[0], 0.0, 60.0))
                .margin(whole(n[1], 0, 2) as usize)
                .k_divisible(whole(n[2], 1, 3)),
        ),
    }
}

const PERMUTATIONS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// One of the 48 orientations.
fn code(n: Numbers) -> String {
    let letters = [["R", "L"], ["A", "P"], ["S", "I"]];
    pick(&PERMUTATIONS, n[0]).map(|axis| pick(&letters[axis], n[1 + axis])).concat()
}

/// Steps that resample.
const RESAMPLINGS: usize = 10;

/// Linear, or nearest.
fn resampling(which: usize, n: Numbers, nearest: bool) -> Box<dyn Transform> {
    let key = "image";
    let mode = if nearest { GridMode::Nearest } else { GridMode::Bilinear };
    let resize_mode = if nearest { ResizeMode::Nearest } else { ResizeMode::Trilinear };
    let padding = pick(&[GridPadding::Border, GridPadding::Zeros, GridPadding::Reflection], n[7]);
    let three = |low, high| [between(n[0], low, high), between(n[1], low, high), between(n[2], low, high)];
    let keep = n[6] < 0.5;
    match which {
        0 => Box::new(
            Spacing::new(key, three(0.6, 2.2)).mode(mode).padding_mode(padding).diagonal(keep).scale_extent(n[5] < 0.5),
        ),
        1 => {
            let to = affine::compose(&oblique(), &turned(three(-0.3, 0.3), n[3]));
            let size = keep.then(|| [whole(n[4], 5, 14), 8, 9].into());
            Box::new(
                SpatialResample::new(key)
                    .dst_affine(Some(to.map(|row| row.to_vec()).to_vec()))
                    .spatial_size(size)
                    .mode(mode)
                    .padding_mode(padding),
            )
        }
        2 => Box::new(ResampleToMatch::new(key, "like").mode(mode).padding_mode(padding)),
        3 => {
            let sizes = [whole(n[0], 6, 18), whole(n[1], 6, 18), whole(n[2], 6, 18)];
            Box::new(Resize::new(key, sizes).mode(resize_mode))
        }
        4 => Box::new(Zoom::new(key, three(0.6, 1.7)).mode(resize_mode).keep_size(keep)),
        5 => Box::new(RandZoom::new(key).prob(n[0]).min_zoom(0.6).max_zoom(1.7).mode(resize_mode).keep_size(keep)),
        6 => Box::new(Rotate::new(key, three(-0.6, 0.6)).keep_size(keep).mode(mode).padding_mode(padding)),
        7 => {
            let rotate = RandRotate::new(key).prob(n[0]).range_x(0.4).range_y([0.1, 0.4]).range_z(n[1]);
            Box::new(rotate.keep_size(keep).mode(mode).padding_mode(padding))
        }
        8 => Box::new(
            Affine::new(key)
                .rotate_params(three(-0.4, 0.4).to_vec())
                .shear_params(vec![between(n[3], -0.1, 0.1); 6])
                .translate_params(vec![between(n[4], -2.0, 2.0); 3])
                .scale_params(three(0.8, 1.3).to_vec())
                .mode(mode)
                .padding_mode(padding),
        ),
        _ => Box::new(
            RandAffine::new(key)
                .prob(n[0])
                .rotate_range([0.3, 0.2, 0.4])
                .translate_range([2.0, 1.0, 1.0])
                .scale_range([0.2])
                .mode(mode)
                .padding_mode(padding),
        ),
    }
}

/// A grid that is neither upright nor near the origin.
fn oblique() -> Matrix {
    [[0.1, -1.2, 0.0, 5.0], [1.1, 0.2, 0.1, -3.0], [0.0, 0.1, 1.5, 7.0], affine::IDENTITY[3]]
}

/// A rotation about the third axis, scaled and shifted.
fn turned(by: [f64; 3], scale: f64) -> Matrix {
    let (s, c) = by[0].sin_cos();
    let scale = between(scale, 0.7, 1.6);
    [[c * scale, -s, 0.0, by[1] * 4.0], [s * scale, c, 0.0, by[2] * 4.0], [0.0, 0.0, 1.0, 0.5], affine::IDENTITY[3]]
}

/// A loading step that only declares the existing images; they are already in memory.
fn given() -> Box<dyn Transform> {
    Box::new(LoadImage::new(["image", "like"]).allow_missing_keys(true))
}

fn run(step: Box<dyn Transform>, sample: Sample, seed: u64) -> Image {
    let pipeline = Pipeline::new(vec![given(), step]).expect("sound");
    let out = pipeline.run(sample, DrawKey::new(seed, 0, 0)).expect("it runs");
    out[0].image("image").expect("an image").clone()
}

fn undone(mut image: Image) -> Image {
    while !image.meta.applied.is_empty() {
        image = image.undo_last(false).expect("it can be undone");
    }
    image
}

fn voxels(shape: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [x, y, z] = shape;
    (0..x).flat_map(move |i| (0..y).flat_map(move |j| (0..z).map(move |k| [i, j, k])))
}

fn world(matrix: &Matrix, at: [usize; 3]) -> [f64; 3] {
    affine::apply(matrix, at.map(|v| v as f64))
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|i| (a[i] - b[i]).abs()).fold(0.0, f64::max)
}

/// Voxels that are all different, none 0.
fn counting(shape: [usize; 3]) -> Image {
    let values = (1..=shape.iter().product::<usize>()).map(|v| v as f32).collect();
    Image::from_values(values, [1, shape[0], shape[1], shape[2]], oblique(), &host_device())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A moved voxel is at the position of its landmark, and the inverse moves it back; cropped
    /// parts return as zeros.
    #[test]
    fn voxels_that_move_keep_their_place_in_the_world(
        which in 0..MOVES, n in numbers(), shape in prop::array::uniform3(4usize..8), seed in any::<u64>(),
    ) {
        let image = counting(shape);
        let places: Vec<[usize; 3]> = voxels(shape).collect();
        let moved = run(moves(which, n), Sample::new("x").with_image("image", image.clone()), seed);
        let mut kept = vec![0.0; places.len()];
        for (value, at) in moved.to_vec().into_iter().zip(voxels(moved.shape())).filter(|(value, _)| *value > 0.0) {
            let from = value as usize - 1;
            let (was, is) = (world(&image.affine, places[from]), world(&moved.affine, at));
            prop_assert!(distance(was, is) < 1e-9, "voxel {:?} at {:?} mm is now at {:?}", places[from], was, is);
            kept[from] = value;
        }
        let back = undone(moved);
        prop_assert_eq!(back.shape(), shape);
        prop_assert!(affine::distance(&back.affine, &image.affine) < 1e-9);
        prop_assert_eq!(back.to_vec(), kept.clone());
        if which < LOSSLESS {
            prop_assert_eq!(kept, image.to_vec());
        }
    }
}

/// Three channels that encode the position of a voxel in the world, which linear interpolation
/// reproduces, and a smooth one.
fn located(shape: [usize; 3]) -> Image {
    let matrix = oblique();
    let channel = |c: usize| {
        voxels(shape).map(move |at| match c {
            3 => at.iter().zip([0.15, 0.2, 0.1]).map(|(i, step)| (*i as f32 * step).sin()).sum(),
            axis => world(&matrix, at)[axis] as f32,
        })
    };
    let values = (0..4).flat_map(channel).collect();
    Image::from_values(values, [4, shape[0], shape[1], shape[2]], matrix, &host_device())
}

/// Whether a position, in voxels, lies between the centres of a grid.
fn is_inside(place: [f64; 3], shape: [usize; 3]) -> bool {
    (0..3).all(|a| place[a] >= -1e-6 && place[a] <= shape[a] as f64 - 1.0 + 1e-6)
}

/// The voxels around a position.
fn around(place: [f64; 3]) -> impl Iterator<Item = [f64; 3]> {
    (0..8).map(move |corner| {
        std::array::from_fn(|a| if corner >> a & 1 == 0 { place[a].floor() } else { place[a].ceil() })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// After resampling, each voxel holds the value at its position in the world; the inverse
    /// returns the original values.
    #[test]
    fn resampling_keeps_places_and_finds_the_way_back(
        which in 0..RESAMPLINGS, n in numbers(), shape in prop::array::uniform3(8usize..13), seed in any::<u64>(),
    ) {
        let image = located(shape);
        let like = Image::from_values(vec![0.0; 990], [1, 9, 11, 10], turned([n[0] - 0.5, n[1], n[2]], n[3]), &host_device());
        let like = Image { affine: affine::compose(&image.affine, &like.affine), ..like };
        let sample = Sample::new("x").with_image("image", image.clone()).with_image("like", like);
        let moved = run(resampling(which, n, false), sample, seed);
        let forward = affine::compose(&affine::inverse(&moved.affine).expect("a grid"), &image.affine);
        let backward = affine::inverse(&forward).expect("a grid");
        let values = moved.to_vec();
        let count = values.len() / 4;
        let mut seen = 0;
        for (i, at) in voxels(moved.shape()).enumerate() {
            if is_inside(affine::apply(&backward, at.map(|v| v as f64)), shape) {
                let found = [0, 1, 2].map(|c| f64::from(values[c * count + i]));
                let place = world(&moved.affine, at);
                prop_assert!(distance(found, place) < 2e-3, "{:?} mm holds what lay at {:?}", place, found);
                seen += 1;
            }
        }
        prop_assert!(seen > 20, "{} voxels lie within the image", seen);
        let new_shape = moved.shape();
        let back = undone(moved);
        prop_assert_eq!(back.shape(), shape);
        prop_assert!(affine::distance(&back.affine, &image.affine) < 1e-9);
        let (before, after) = (image.to_vec(), back.to_vec());
        let count = before.len() / 4;
        for (i, at) in voxels(shape).enumerate() {
            let place = affine::apply(&forward, at.map(|v| v as f64));
            let sources = around(place).all(|corner| {
                is_inside(corner, new_shape) && is_inside(affine::apply(&backward, corner), shape)
            });
            // Linear values return exactly, smooth ones up to the error of two interpolations.
            for (c, slack) in [(0, 4e-3), (1, 4e-3), (2, 4e-3), (3, 0.05)].into_iter().filter(|_| sources) {
                let (a, b) = (before[c * count + i], after[c * count + i]);
                prop_assert!((a - b).abs() < slack, "channel {} at {:?}: {} came back as {}", c, at, a, b);
            }
        }
    }

    /// Copied voxels are the same, however the chain is run.
    #[test]
    fn lazy_runs_copy_the_same_voxels(
        steps in prop::collection::vec((0..MOVES + RESAMPLINGS, numbers()), 1..6),
        shape in prop::array::uniform3(4usize..9), seed in any::<u64>(),
    ) {
        let like = Image::from_values(vec![0.0; 210], [1, 5, 6, 7], oblique(), &host_device());
        let run = |lazy: Lazy| {
            let chain = steps.iter().map(|(which, n)| match which.checked_sub(MOVES) {
                Some(which) => resampling(which, *n, true),
                None => moves(*which, *n),
            });
            let sample = Sample::new("x").with_image("image", counting(shape)).with_image("like", like.clone());
            let pipeline = Pipeline::new([given()].into_iter().chain(chain).collect::<Vec<Box<dyn Transform>>>()).expect("sound").lazy(lazy);
            pipeline.run(sample, DrawKey::new(seed, 0, 0)).map(|out| out[0].image("image").expect("an image").clone())
        };
        // An empty result, or one that is too small for the next step, is an error in both cases.
        let (eager, exact) = (run(Lazy::Off), run(Lazy::Exact));
        prop_assert_eq!(eager.is_ok(), exact.is_ok());
        if let (Ok(eager), Ok(exact)) = (eager, exact) {
            prop_assert_eq!(exact.data.dims(), eager.data.dims());
            prop_assert_eq!(exact.to_vec(), eager.to_vec());
            prop_assert_eq!(exact.affine, eager.affine);
            prop_assert_eq!(&exact.meta.applied, &eager.meta.applied);
            if steps.iter().all(|(which, _)| *which < MOVES) {
                let on = run(Lazy::On).expect("it runs");
                prop_assert_eq!(on.to_vec(), eager.to_vec());
                prop_assert!(affine::distance(&on.affine, &eager.affine) < 1e-9);
            }
        }
    }
}
