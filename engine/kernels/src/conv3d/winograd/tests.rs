//! Tests the properties that the tiles share with the plain sum: the size of rounding errors, and
//! where non-finite values occur. Other tests compare the values of all algorithms.

use super::super::blocked::{self, Along, Behind, Loops, Plan, RUN, Source, Weight};
use super::super::cpu;
use super::super::geometry::Geometry;
use super::super::tests::{products, values};
use super::transform::Kind;
use super::{Walk, outputs};

/// Stride 1 with many channels, which needs fewer products: every kind of tile, odd sizes, every
/// padding, one and several registers of lanes.
pub fn of_fewer_products() -> Vec<Geometry> {
    let mut found = vec![];
    for (kind, input, kernel, padding, [channels_in, channels_out], batch) in [
        (Kind::Two, [8, 8, 12], [3; 3], [1; 3], [16, 16], 1),
        (Kind::Two, [7, 9, 6], [3; 3], [1; 3], [20, 37], 2),
        (Kind::Two, [10, 6, 9], [3; 3], [2; 3], [40, 16], 1),
        (Kind::Two, [5, 6, 8], [3; 3], [3; 3], [16, 20], 1),
        (Kind::Two, [2, 4, 131], [3; 3], [1; 3], [17, 70], 1),
        // More padding next to a row than the part of the row has positions.
        (Kind::Two, [3, 2, 1], [3; 3], [2, 1, 70], [16, 32], 1),
        (Kind::Four, [3, 2, 1], [3; 3], [2, 2, 70], [16, 32], 1),
        (Kind::Four, [8, 8, 40], [3; 3], [1; 3], [8, 9], 1),
        (Kind::Four, [5, 4, 131], [3; 3], [1; 3], [17, 70], 1),
        (Kind::Four, [7, 9, 53], [3; 3], [1; 3], [20, 37], 1),
        (Kind::Four, [14, 13, 14], [3; 3], [0; 3], [33, 18], 2),
        (Kind::Four, [11, 8, 20], [3; 3], [2, 0, 2], [16, 48], 2),
        // Rows and channels of whole squares, which are transposed into the output.
        (Kind::Four, [7, 9, 48], [3; 3], [1; 3], [16, 32], 2),
        (Kind::Four, [8, 8, 64], [3; 3], [1; 3], [17, 48], 1),
        (Kind::TwoOfFive, [6, 7, 32], [5; 3], [2; 3], [18, 32], 2),
        (Kind::FlatFour, [1, 21, 48], [1, 3, 3], [0, 1, 1], [17, 16], 1),
        // Kernels of one tap, two and six along the row.
        (Kind::Four, [8, 7, 60], [3, 3, 1], [1, 1, 0], [17, 20], 1),
        (Kind::Four, [8, 8, 60], [3, 3, 2], [1, 1, 0], [18, 34], 1),
        (Kind::Four, [8, 8, 60], [3, 3, 6], [1, 1, 3], [18, 34], 1),
        (Kind::TwoOfFive, [6, 7, 21], [5; 3], [2; 3], [18, 33], 1),
        (Kind::TwoOfFive, [8, 10, 14], [5; 3], [0, 4, 1], [16, 16], 2),
        (Kind::FlatFour, [1, 21, 40], [1, 3, 3], [0, 1, 1], [17, 40], 1),
        (Kind::FlatFour, [3, 8, 35], [1, 3, 3], [0, 2, 0], [33, 16], 1),
        (Kind::FlatTwoOfFive, [1, 14, 33], [1, 5, 5], [0, 2, 2], [20, 19], 1),
        // Few channels, where two tiles share registers: an odd number of tiles, rows in several
        // parts, one tile alone, and the same for the gradients.
        (Kind::Two, [9, 7, 13], [3; 3], [1; 3], [5, 8], 1),
        (Kind::Two, [5, 5, 17], [3; 3], [1; 3], [8, 6], 3),
        (Kind::Two, [3, 2, 1], [3; 3], [2, 1, 70], [8, 8], 1),
        (Kind::Four, [12, 12, 40], [3; 3], [1; 3], [8, 8], 1),
        (Kind::Four, [3, 11, 300], [3; 3], [1; 3], [5, 7], 1),
        (Kind::Four, [4, 4, 200], [3; 3], [1; 3], [8, 8], 1),
        (Kind::Four, [7, 9, 53], [3; 3], [1; 3], [8, 20], 2),
        (Kind::Four, [12, 12, 40], [3; 3], [1; 3], [17, 3], 1),
        (Kind::Four, [12, 12, 40], [3; 3], [1; 3], [4, 8], 1),
        (Kind::Four, [12, 11, 39], [3; 3], [1; 3], [2, 9], 2),
        (Kind::Four, [8, 8, 60], [3, 3, 6], [1, 1, 3], [6, 8], 1),
        (Kind::TwoOfFive, [6, 7, 21], [5; 3], [2; 3], [8, 8], 1),
        (Kind::FlatFour, [1, 19, 40], [1, 3, 3], [0, 1, 1], [8, 5], 1),
        (Kind::FlatTwoOfFive, [1, 14, 33], [1, 5, 5], [0, 2, 2], [7, 8], 1),
    ] {
        let output = std::array::from_fn(|a| input[a] + 2 * padding[a] + 1 - kernel[a]);
        let (stride, dilation) = ([1; 3], [1; 3]);
        let g =
            Geometry { batch, groups: 1, channels_in, channels_out, input, output, kernel, stride, padding, dilation };
        assert_eq!(Walk::forward(&g.flat_first()).map(|walk| walk.kind), Some(kind), "{g:?}");
        found.push(g);
    }
    found
}

/// The same at stride 2: sizes that are not multiples of a tile, even and odd ones, rows in several
/// parts; and the tiles of the transpose.
pub fn of_fewer_products_at_stride_two() -> Vec<Geometry> {
    let (two, three) = (Kind::StridedTwo, Kind::StridedThree);
    let back = [Some(Kind::TransposedTwo), Some(Kind::TransposedThree), None];
    let mut found = vec![];
    for (kind, transposed, input, padding, [channels_in, channels_out], batch) in [
        (two, back[0], [8, 8, 24], [1; 3], [16, 16], 1),
        (two, back[0], [7, 11, 21], [1; 3], [20, 37], 2),
        (two, back[0], [16, 15, 17], [1; 3], [9, 70], 1),
        (two, back[0], [4, 8, 300], [1; 3], [17, 40], 1),
        (two, back[1], [12, 12, 60], [1; 3], [16, 32], 2),
        (three, back[1], [11, 17, 49], [1; 3], [20, 37], 2),
        (three, back[1], [12, 24, 96], [1; 3], [9, 16], 1),
        (three, back[1], [23, 12, 270], [1; 3], [17, 18], 1),
        // Whole rows in registers, which are written directly.
        (three, back[1], [12, 24, 64], [1; 3], [32, 32], 2),
        // With other paddings, the transpose uses the plain sum.
        (two, back[2], [13, 13, 75], [0; 3], [16, 20], 2),
        (two, back[2], [9, 11, 16], [0, 1, 2], [18, 34], 1),
        (three, back[2], [15, 9, 80], [2; 3], [16, 16], 1),
    ] {
        let (kernel, stride, dilation) = ([3; 3], [2; 3], [1; 3]);
        let output = std::array::from_fn(|a| (input[a] + 2 * padding[a] - kernel[a]) / 2 + 1);
        let g =
            Geometry { batch, groups: 1, channels_in, channels_out, input, output, kernel, stride, padding, dilation };
        let kinds = [Walk::forward(&g), Walk::input_gradient(&g)].map(|walk| walk.map(|walk| walk.kind));
        assert_eq!(kinds, [Some(kind), transposed], "{g:?}");
        found.push(g);
    }
    found
}

#[test]
fn fewer_products_are_rounded_about_as_often() {
    for (input, kernel, stride) in [
        ([12, 12, 16], [3; 3], 1),
        ([8, 8, 14], [5; 3], 1),
        ([1, 28, 28], [1, 3, 3], 1),
        ([8, 8, 32], [3; 3], 2),
        ([24, 24, 24], [3; 3], 2),
    ] {
        let g = Geometry {
            batch: 1,
            groups: 1,
            channels_in: 64,
            channels_out: 16,
            input,
            output: input.map(|length| length.div_ceil(stride)),
            kernel,
            stride: [stride; 3],
            padding: kernel.map(|k| k / 2),
            dilation: [1; 3],
        };
        let walk = Walk::forward(&g).expect("fewer products");
        let (x, w) = (values(1, g.input_len()), values(2, g.weight_len()));
        let mut expected = vec![0.0_f64; g.output_len()];
        products(&g, |i, o, k| expected[o] += f64::from(x[i]) * f64::from(w[k]));
        let weight = Weight { values: &w, lane: g.channels_in * g.taps(), channel: g.taps() };
        let (loops, source) = (Loops::here(), || Source::from(&x[..]));
        let fewer = outputs(loops, &walk, 1, source(), weight, Behind::default()).expect("finite");
        let plan = Plan::forward(&g, RUN);
        let plain = blocked::outputs(loops, Along::Channels, &plan, 1, source(), weight, Behind::default());
        let error = |got: &[f32]| -> f64 {
            got.iter().zip(&expected).map(|(got, expected)| (f64::from(*got) - expected).powi(2)).sum::<f64>().sqrt()
        };
        let (fewer, plain) = (error(&fewer), error(&plain));
        assert!(fewer < 2.0 * plain, "{:?}: {fewer:e}, in the plain sum {plain:e}", walk.kind);
    }
}

#[test]
fn what_is_infinite_or_not_a_number_ends_as_in_the_plain_sum() {
    for (input, kernel, stride) in [
        ([8, 10, 11], [3; 3], 1),
        ([8, 10, 41], [3; 3], 1),
        ([8, 6, 20], [5; 3], 1),
        ([1, 21, 40], [1, 3, 3], 1),
        ([1, 14, 33], [1, 5, 5], 1),
        ([8, 8, 24], [3; 3], 2),
        ([12, 12, 24], [3; 3], 2),
    ] {
        for channels in [8 * stride, 16] {
            let g = Geometry {
                batch: 1,
                groups: 1,
                channels_in: channels,
                channels_out: channels,
                input,
                output: input.map(|length| length.div_ceil(stride)),
                kernel,
                stride: [stride; 3],
                padding: kernel.map(|k| k / 2),
                dilation: [1; 3],
            };
            assert!(Walk::forward(&g).is_some() && Walk::input_gradient(&g).is_some());
            ends_as_in_the_plain_sum(&g);
        }
    }
}

fn ends_as_in_the_plain_sum(g: &Geometry) {
    let ends = |values: &[f32]| -> Vec<u8> {
        values
            .iter()
            .map(|v| {
                if v.is_nan() {
                    3
                } else if *v == f32::INFINITY {
                    1
                } else {
                    2 * u8::from(v.is_infinite())
                }
            })
            .collect()
    };
    let expected = |values: &[f64]| ends(&values.iter().map(|v| *v as f32).collect::<Vec<_>>());
    for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for which in 0..3 {
            let mut all = [values(1, g.input_len()), values(2, g.weight_len()), values(3, g.output_len())];
            // In the middle of a volume or of a kernel: a zero beyond the edge times infinity is
            // NaN.
            let [d, h, w] = if which == 2 { g.output } else { g.input };
            let of_volume = ((7 * d + d / 2) * h + h / 2) * w + w / 2;
            let middle = [of_volume, (5 * g.channels_in + 7) * g.taps() + g.taps() / 2][usize::from(which == 1)];
            all[which][middle] = odd;
            let [x, w, dy] = &all;
            let (mut y, mut dx, mut dw) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
            products(g, |i, o, k| {
                y[o] += f64::from(x[i]) * f64::from(w[k]);
                dx[i] += f64::from(dy[o]) * f64::from(w[k]);
                dw[k] += f64::from(dy[o]) * f64::from(x[i]);
            });
            let loops = Loops::here();
            let got = cpu::forward(loops, &x[..], w, Behind::default(), g);
            assert!(ends(&got) == expected(&y), "forward, {odd} in {which}");
            let got = cpu::input_gradient(loops, &dy[..], w, Behind::default(), g);
            assert!(ends(&got) == expected(&dx), "input gradient, {odd} in {which}");
            let got = cpu::weight_gradient(loops, x, dy, g);
            assert!(ends(&got) == expected(&dw), "weight gradient, {odd} in {which}");
        }
    }
}

#[test]
fn a_part_of_a_batch_has_the_tiles_of_all_of_it() {
    let kind = |g: &Geometry| Walk::forward(g).map(|walk| walk.kind);
    let mut differ = 0;
    for length in [4, 6, 8, 12, 16] {
        let size = [length; 3];
        let (kernel, unit) = ([3; 3], [1; 3]);
        let of = |batch| Geometry {
            batch,
            groups: 1,
            channels_in: 32,
            channels_out: 32,
            input: size,
            output: size,
            kernel,
            stride: unit,
            padding: unit,
            dilation: unit,
        };
        assert_eq!(super::as_part_of(4, || kind(&of(2))), kind(&of(8)), "{length}");
        differ += usize::from(kind(&of(2)) != kind(&of(8)));
    }
    assert!(differ > 0, "the number of images matters");
}

#[test]
fn plain_sums_are_taken_where_they_are_asked_for() {
    let g = &of_fewer_products()[0];
    assert!(super::plain_sums(|| Walk::forward(g)).is_none());
    assert!(Walk::forward(g).is_some());
}
