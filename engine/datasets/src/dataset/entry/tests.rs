//! Tests of entries in memory: written values are read back, as a whole and in part, or are
//! rejected.

use hearth_image::spatial::{GridMode, GridPadding, GridSampling, ResizeMode, SplineOrder, crop};
use hearth_image::{Affine, Applied, Image, affine, host_device};
use hearth_io::nifti;
use hearth_transforms::{DrawKey, Sample, Value};
use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

fn open(bytes: &[u8]) -> Result<Entry, EntryError> {
    Entry::open(Box::new(MemoryBytes::new(bytes.to_vec())), bytes.len() as u64, &KEY, "test".to_owned())
}

fn read(samples: &[Sample], storage: Storage) -> Vec<Sample> {
    let bytes = encode(samples, KEY, storage).expect("it can be kept");
    open(&bytes).expect("sound").samples(|_, _| host_device())
}

fn image(shape: [usize; 4], kind: usize) -> Image {
    let draw = DrawKey::new(0, 0, 0).draw("values", kind, 0);
    let mut values = vec![0.0_f32; shape.iter().product()];
    match kind {
        0 => draw.add_normal(&mut values, 0.0, 1.0),
        1 => values.iter_mut().for_each(|v| *v = draw.below(3) as f32),
        2 => values.iter_mut().for_each(|v| *v = draw.below(3000) as f32 - 1024.0),
        _ => values.fill(0.25),
    }
    let affine: Affine = [[-1.5, 0.1, 0.0, 3.0], [0.0, 0.7, 0.3, -4.0], [0.0, 0.0, 2.0, 1e-9], [0.0, 0.0, 0.0, 1.0]];
    Image::from_values(values, shape, affine, &host_device())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A box of a stored image is bit-identical to that box of the image, with the same geometry
    /// and history.
    #[test]
    fn boxes_are_crops(
        channels in 1..3_usize,
        shape in prop_oneof![[1..70_usize, 1..70_usize, 1..40_usize], [1..200_usize, 1..200_usize, 1..2_usize]],
        kind in 0..4_usize,
        ends in [(0.0..1.0_f64, 0.0..1.0_f64), (0.0..1.0_f64, 0.0..1.0_f64), (0.0..1.0_f64, 0.0..1.0_f64)],
    ) {
        let image = image([channels, shape[0], shape[1], shape[2]], kind);
        let place = |part: f64, n: usize| -> usize { (part * (n + 1) as f64) as usize };
        let start: [usize; 3] = std::array::from_fn(|a| place(ends[a].0.min(ends[a].1), shape[a] - 1));
        let end: [usize; 3] = std::array::from_fn(|a| place(ends[a].0.max(ends[a].1), shape[a]).max(start[a] + 1));
        let mut stored = read(&[Sample::new("a").with_image("image", image.clone())], Storage::Exact).remove(0);
        prop_assert_eq!(stored.shape("image").expect("an image"), shape);
        let whole = match stored.get("image").expect("an image") {
            Value::Stored(image) => image.read().expect("sound"),
            other => panic!("{other:?}"),
        };
        let bits = |image: &Image| image.to_vec().iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
        prop_assert_eq!(bits(&whole), bits(&image));
        stored.crop("image", start, end).expect("sound");
        let part = stored.image("image").expect("an image");
        let expected = crop(image, start, end);
        prop_assert_eq!(bits(part), bits(&expected));
        prop_assert_eq!(part.data.dims(), expected.data.dims());
        prop_assert_eq!(part.affine, expected.affine);
        prop_assert_eq!(format!("{:?}", part.meta), format!("{:?}", expected.meta));
    }

    /// Lists are read back as a whole and entry by entry, ascending or not, across all their
    /// blocks.
    #[test]
    fn lists_come_back(length in prop_oneof![0..5_usize, 8190..8200_usize, 30_000..30_100_usize], ascending in any::<bool>()) {
        let draw = DrawKey::new(1, 0, 0).draw("list", 0, 0);
        let list: Vec<u64> =
            (0..length as u64).map(|i| if ascending { i * 2 + draw.below(2) } else { draw.below(u64::MAX) }).collect();
        let stored = read(&[Sample::new("a").with("list", list.clone().into())], Storage::F32).remove(0);
        let handle = stored.index_list("list").expect("a list");
        prop_assert_eq!(handle.len(), length);
        for place in [0, 1, 8191, 8192, length / 2, length.saturating_sub(1)] {
            match handle.get(place) {
                Ok(entry) => prop_assert_eq!(Some(&entry), list.get(place)),
                Err(_) => prop_assert!(place >= length),
            }
        }
        let mut stored = stored;
        stored.read_stored(|_| false).expect("sound");
        prop_assert_eq!(&stored.indices("list").expect("a list")[..], &list[..]);
    }

    /// Arbitrary bytes are an error, whatever their start.
    #[test]
    fn any_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), begin in any::<bool>()) {
        if begin && bytes.len() >= 52 {
            let length = bytes.len() as u64;
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..16].copy_from_slice(&length.to_le_bytes());
            bytes[16..20].copy_from_slice(&(length as u32 - 52).to_le_bytes());
            let hash = *blake3::hash(&bytes[52..]).as_bytes();
            bytes[20..52].copy_from_slice(&hash);
        }
        prop_assert!(matches!(open(&bytes), Err(EntryError::Damaged(_))));
    }
}

#[test]
fn histories_come_back() {
    let order = |order: u8| SplineOrder::try_from(order).expect("an order");
    let (affine, shape) = (affine::translation([0.1, -7.0, 1e-300]), [3, 4, 5]);
    for mode in [
        GridMode::Bilinear,
        GridMode::Nearest,
        GridMode::Bicubic,
        GridMode::Spline(order(0)),
        GridMode::Spline(order(5)),
    ] {
        let sampling = GridSampling { mode, padding_mode: GridPadding::GridWrap, align_corners: true };
        let mut image = image([1, 3, 4, 5], 1);
        image.meta.applied = vec![
            Applied::Crop { start: [1, 2, 3], shape },
            Applied::Pad { before: [0, 1, 0], after: [2, 0, 0] },
            Applied::Flatten,
            Applied::Resample { affine, shape, sampling },
            Applied::Resize { affine, shape, spatial_dims: 3, mode: ResizeMode::NearestExact, align_corners: false },
            Applied::Warp { affine, shape, back: affine::IDENTITY, sampling },
        ];
        let image = hearth_image::spatial::flip(image, &[0]);
        let mut back = read(&[Sample::new("a").with_image("image", image.clone())], Storage::Exact).remove(0);
        back.read_stored(|_| false).expect("sound");
        assert_eq!(back.image("image").expect("an image").meta.applied, image.meta.applied);
    }
}

#[test]
fn everything_else_comes_back_too() {
    let mut image = image([1, 3, 4, 5], 0);
    // A header has values that no text format keeps: NaN, bytes that are not UTF-8.
    let mut header = nifti::Header::default();
    header.scl_slope = f64::NAN;
    header.descrip = [0xff; 80];
    image.meta.header = Some(header.into());
    image.meta.path = Some("/data/a.nii.gz".into());
    image.meta.original_affine = affine::translation([0.1, 1e-300, -7.0]);
    let image = hearth_image::spatial::flip(image, &[0]);
    let sample = Sample::new("case/1")
        .with_image("image", image.clone())
        .with("path", Value::Path("x.nii".into()))
        .with("number", Value::Number(0.1))
        .with("numbers", Value::Numbers(vec![1.0, f64::INFINITY].into()))
        .with("text", Value::Text("ä".to_owned()))
        .with("lists", Value::Lists(vec![vec![5, 6, 7].into(), Vec::new().into(), vec![0].into()]));
    let mut back = read(&[sample.clone(), Sample::new("empty")], Storage::Exact);
    assert_eq!((back.len(), back[1].case.as_str()), (2, "empty"));
    let lists = back[0].index_lists("lists").expect("lists");
    assert_eq!(lists.iter().map(|l| l.len()).collect::<Vec<_>>(), [3, 0, 1]);
    assert_eq!(lists[0].get(2), Ok(7));
    back[0].read_stored(|_| false).expect("sound");
    let meta = |sample: &Sample| format!("{:?}", sample.image("image").expect("an image").meta);
    assert_eq!(meta(&back[0]), meta(&sample));
    for key in ["lists", "path", "number", "numbers", "text"] {
        assert_eq!(format!("{:?}", back[0].get(key)), format!("{:?}", sample.get(key)));
    }
}

#[test]
fn a_key_and_a_version_must_match() {
    let bytes = encode(&[Sample::new("a")], KEY, Storage::F32).expect("it can be kept");
    let told = |bytes: &[u8], key: [u8; 32]| {
        let source = Box::new(MemoryBytes::new(bytes.to_vec()));
        Entry::open(source, bytes.len() as u64, &key, "test".to_owned()).expect_err("refused").to_string()
    };
    assert!(told(&bytes, [8; 32]).contains("another case"));
    let mut older = bytes.clone();
    older[7] = 0;
    assert!(told(&older, KEY).contains("version"));
    assert!(told(&bytes[..bytes.len() - 1], KEY).contains("were written"));
    assert!(open(&bytes).is_ok());
}

#[test]
fn what_f16_can_t_hold_is_an_error() {
    let large = Image::from_values(vec![1e6, 0.5], [1, 1, 1, 2], affine::IDENTITY, &host_device());
    let error = encode(&[Sample::new("a").with_image("image", large)], KEY, Storage::F16).expect_err("too large");
    assert!(error.contains("65504"), "{error}");
}
