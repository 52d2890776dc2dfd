//! Median of the neighbourhood of each voxel.

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::Edge;
use crate::host;

/// The number of outputs that are computed together, lane by lane.
const LANES: usize = 32;

/// The largest window that is reduced by exchanges; in larger ones, each median is selected
/// separately.
const LARGEST: usize = 343;

/// The median of the `2 * radius + 1` voxels along each axis around each voxel of `image`
/// (`[C, X, Y, Z]`, f32), with edge voxels repeated outwards:
/// `monai.networks.layers.median_filter`. Values must not be NaN.
///
/// It runs on the CPU: values of another device are copied there and back.
pub fn median(image: Tensor<4>, radius: [usize; 3]) -> Tensor<4> {
    let (dims, device) = (image.dims(), image.device());
    if radius == [0; 3] {
        return image;
    }
    let source = host::values(&image);
    if source.is_empty() {
        return image;
    }
    let mut out = vec![0.0_f32; source.len()];
    match dims {
        // A 2-D image: its rows are along Y.
        [c, x, y, 1] => filter(&source, [c, 1, x, y], [0, radius[0], radius[1]], &mut out),
        _ => filter(&source, dims, radius, &mut out),
    }
    Tensor::from_data(TensorData::new(out, dims), &device)
}

fn filter(source: &[f32], [_, nx, ny, nz]: [usize; 4], radius: [usize; 3], out: &mut [f32]) {
    let around = |at: usize, radius: usize, n: usize| {
        let first = at as isize - radius as isize;
        (0..2 * radius + 1).filter_map(move |k| Edge::Replicate.source(first + k as isize, n))
    };
    let length = 2 * radius[2] + 1;
    let window = (2 * radius[0] + 1) * (2 * radius[1] + 1) * length;
    out.par_chunks_mut(nz).enumerate().for_each_init(
        || (Vec::new(), vec![[0.0_f32; LANES]; window]),
        |(rows, lanes), (index, target)| {
            let (c, x, y) = (index / (nx * ny), index / ny % nx, index % ny);
            // The rows of the neighbourhood, padded to a whole number of lanes.
            let stride = nz.next_multiple_of(LANES) + 2 * radius[2];
            rows.clear();
            for i in around(x, radius[0], nx) {
                for j in around(y, radius[1], ny) {
                    let row = &source[((c * nx + i) * ny + j) * nz..][..nz];
                    rows.extend(std::iter::repeat_n(row[0], radius[2]));
                    rows.extend_from_slice(row);
                    rows.extend(std::iter::repeat_n(row[nz - 1], stride - nz - radius[2]));
                }
            }
            for (block, target) in target.chunks_mut(LANES).enumerate() {
                let places = (0..window / length).flat_map(|row| (0..length).map(move |k| row * stride + k));
                for (lane, place) in lanes.iter_mut().zip(places) {
                    lane.copy_from_slice(&rows[place + block * LANES..][..LANES]);
                }
                let medians = if window <= LARGEST { middle(lanes) } else { selected(lanes) };
                target.copy_from_slice(&medians[..target.len()]);
            }
        },
    );
}

/// The middle of an odd number of vectors, lane by lane; the vectors are overwritten.
fn middle(values: &mut [[f32; LANES]]) -> [f32; LANES] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has it.
        return unsafe { middle_avx2(values) };
    }
    exchange(values)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn middle_avx2(values: &mut [[f32; LANES]]) -> [f32; LANES] {
    exchange(values)
}

/// The smallest and the largest of more than half of the values cannot be the median: they are
/// dropped and another value is added, until one is left.
#[inline(always)]
fn exchange(values: &mut [[f32; LANES]]) -> [f32; LANES] {
    let n = values.len();
    if n < 3 {
        return values[0];
    }
    let mut kept = n / 2 + 2;
    let first = kept;
    for next in first..=n {
        // The largest of `values[..kept]` goes to the end, the smallest to the front.
        let mut high = values[kept - 1];
        for value in &mut values[..kept - 1] {
            sort(value, &mut high);
        }
        let (low, rest) = values.split_at_mut(1);
        for value in &mut rest[..kept - 2] {
            sort(&mut low[0], value);
        }
        if next < n {
            values[0] = values[next];
            kept -= 1;
        }
    }
    values[1]
}

#[inline(always)]
fn sort(low: &mut [f32; LANES], high: &mut [f32; LANES]) {
    for (low, high) in low.iter_mut().zip(high) {
        let (a, b) = (*low, *high);
        *low = if b < a { b } else { a };
        *high = if b < a { a } else { b };
    }
}

/// The same by selection, for windows that would need too many exchanges.
fn selected(values: &[[f32; LANES]]) -> [f32; LANES] {
    let mut column = vec![0.0; values.len()];
    std::array::from_fn(|lane| {
        column.iter_mut().zip(values).for_each(|(place, vector)| *place = vector[lane]);
        *column.select_nth_unstable_by(values.len() / 2, f32::total_cmp).1
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_middle_of_the_sorted_window(
            shape in [1usize..3, 1usize..6, 1usize..6, 1usize..40],
            radius in [0usize..3, 0usize..3, 0usize..3],
            seed in any::<u32>(),
        ) {
            let values: Vec<f32> = (0..shape.iter().product::<usize>())
                .map(|i| f32::from((i as u32 ^ seed).wrapping_mul(0x9E37_79B9).to_be_bytes()[0] / 4))
                .collect();
            let image = Tensor::<4>::from_data(TensorData::new(values.clone(), shape), &Device::default());
            let got = median(image, radius).try_into_vec_as::<f32>().expect("f32");
            let [c, nx, ny, nz] = shape;
            for (flat, got) in got.iter().enumerate() {
                let at = [flat / (nx * ny * nz), flat / (ny * nz) % nx, flat / nz % ny, flat % nz];
                let around = |axis: usize, n: usize| {
                    let (at, r) = (at[axis] as isize, radius[axis - 1] as isize);
                    (at - r..=at + r).map(move |i| i.clamp(0, n as isize - 1) as usize).collect::<Vec<_>>()
                };
                let mut window = Vec::new();
                for i in around(1, nx) {
                    for j in around(2, ny) {
                        window.extend(around(3, nz).into_iter().map(|k| values[((at[0] * nx + i) * ny + j) * nz + k]));
                    }
                }
                window.sort_by(f32::total_cmp);
                prop_assert!(at[0] < c && *got == window[window.len() / 2], "{got} at {at:?}");
            }
        }
    }

    #[test]
    fn large_windows_are_selected() {
        let mut lanes: Vec<[f32; LANES]> =
            (0..401).map(|i| std::array::from_fn(|lane| ((i * 37 + lane) % 401) as f32)).collect();
        assert_eq!(selected(&lanes), [200.0; LANES]);
        assert_eq!(middle(&mut lanes), [200.0; LANES]);
    }
}
