//! Accumulates overlapping windows in one volume, as sliding-window inference does with its
//! outputs.

use burn::tensor::Tensor;

/// Adds one item of `windows` (`[B, C, x, y, z]`) to the box of `canvas` (`[N, C, X, Y, Z]`) that
/// begins at `start` in item `item`, times `weights` (`[1, 1, x, y, z]`) where given. On the CPU
/// this runs in place and in one pass, on all threads; elsewhere it uses Burn's operations.
///
/// # Panics
/// Where the window does not lie within the canvas, as Burn's own slices do.
pub fn add_window(
    canvas: Tensor<5>,
    (item, start): (usize, [usize; 3]),
    (windows, row): (&Tensor<5>, usize),
    weights: Option<&Tensor<5>>,
) -> Tensor<5> {
    let canvas = match cpu::add_window(canvas, (item, start), (windows, row), weights) {
        Ok(canvas) => return canvas,
        Err(canvas) => canvas,
    };
    let mut window = windows.clone().narrow(0, row, 1);
    if let Some(weights) = weights {
        window = window * weights.clone();
    }
    let [_, channels, sx, sy, sz] = window.dims();
    let [x, y, z] = [(start[0], sx), (start[1], sy), (start[2], sz)].map(|(from, size)| from..from + size);
    let place = [item..item + 1, 0..channels, x, y, z];
    // The view is dropped before the canvas is written, so that the write does not copy.
    let sum = canvas.clone().slice(place.clone()) + window;
    canvas.slice_assign(place, sum)
}

mod cpu {
    use burn::backend::{Flex, tensor::FloatTensor};
    use burn::tensor::Tensor;
    use rayon::prelude::*;

    use crate::flex::{has_floats, with};
    use crate::host;
    use crate::simd::widest;

    fn flex(t: &Tensor<5>) -> Option<FloatTensor<Flex>> {
        (has_floats(t) && !t.is_autodiff()).then(|| t.clone().try_into_primitive::<Flex>().ok()).flatten()
    }

    /// Returns the canvas where there is no kernel for it.
    #[expect(clippy::result_large_err, reason = "both variants contain a tensor")]
    pub fn add_window(
        canvas: Tensor<5>,
        (item, start): (usize, [usize; 3]),
        (windows, row): (&Tensor<5>, usize),
        weights: Option<&Tensor<5>>,
    ) -> Result<Tensor<5>, Tensor<5>> {
        let ([items, channels, cx, cy, cz], [rows, same, x, y, z]) = (canvas.dims(), windows.dims());
        let within = [x, y, z].iter().zip(start).zip([cx, cy, cz]).all(|((size, start), all)| start + size <= all);
        let fits = within && item < items && row < rows && channels == same && !canvas.is_autodiff();
        if !fits || weights.is_some_and(|weights| weights.dims() != [1, 1, x, y, z]) {
            return Err(canvas);
        }
        let Some(windows) = flex(windows) else { return Err(canvas) };
        let weights = match weights.map(flex) {
            Some(Some(weights)) => Some(weights),
            Some(None) => return Err(canvas),
            None => None,
        };
        let one = channels * x * y * z;
        let add = |canvas: &mut [f32], window: &[f32], weights: Option<&[f32]>| {
            let image = &mut canvas[item * channels * cx * cy * cz..][..channels * cx * cy * cz];
            let planes = image.par_chunks_mut(cy * cz).enumerate().filter_map(|(plane, to)| {
                let (channel, at) = (plane / cx, plane % cx);
                at.checked_sub(start[0]).filter(|at| *at < x).map(|at| (channel, at, to))
            });
            planes.for_each(|(channel, at, to)| {
                let from = &window[(channel * x + at) * y * z..][..y * z];
                let weights = weights.map(|weights| &weights[at * y * z..][..y * z]);
                widest(
                    #[inline(always)]
                    move || {
                        for row in 0..y {
                            let to = &mut to[(start[1] + row) * cz + start[2]..][..z];
                            let from = &from[row * z..][..z];
                            match weights {
                                Some(weights) => {
                                    for ((to, value), weight) in to.iter_mut().zip(from).zip(&weights[row * z..][..z]) {
                                        *to += value * weight;
                                    }
                                }
                                None => {
                                    for (to, value) in to.iter_mut().zip(from) {
                                        *to += value;
                                    }
                                }
                            }
                        }
                    },
                );
            });
        };
        with([windows], |[windows]| {
            let window = &windows[row * one..][..one];
            match weights {
                Some(weights) => with([weights], |[weights]| host::change(canvas, |c| add(c, window, Some(weights)))),
                None => host::change(canvas, |c| add(c, window, None)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tensor};

    use super::add_window;

    /// Computes the same with Burn's operations.
    fn parts(canvas: Tensor<5>, window: Tensor<5>, [item, x, y, z]: [usize; 4]) -> Tensor<5> {
        let [_, channels, sx, sy, sz] = window.dims();
        let place = [item..item + 1, 0..channels, x..x + sx, y..y + sy, z..z + sz];
        let sum = canvas.clone().slice(place.clone()) + window;
        canvas.slice_assign(place, sum)
    }

    #[test]
    fn windows_are_added_where_they_belong() {
        let device = Device::flex();
        let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Default, &device);
        let canvas = random([2, 3, 5, 6, 7]);
        let before = canvas.clone().into_data();
        // The windows are a view.
        let windows = random([3, 4, 2, 4, 7]).swap_dims(0, 1);
        let weights = random([1, 1, 2, 4, 7]);
        for at in [[0, 0, 0, 0], [1, 3, 2, 0], [1, 1, 1, 0]] {
            let place = (at[0], [at[1], at[2], at[3]]);
            let window = windows.clone().narrow(0, 2, 1);
            let ours = add_window(canvas.clone(), place, (&windows, 2), Some(&weights));
            let theirs = parts(canvas.clone(), window.clone() * weights.clone(), at);
            assert_eq!(ours.into_data(), theirs.into_data(), "weighted at {at:?}");
            let ours = add_window(canvas.clone(), place, (&windows, 2), None);
            assert_eq!(ours.into_data(), parts(canvas.clone(), window, at).into_data(), "plain at {at:?}");
        }
        // A canvas with another owner is not changed.
        assert_eq!(canvas.into_data(), before);
    }

    #[test]
    fn gradients_go_through() {
        let device = Device::flex().autodiff();
        let window = Tensor::<5>::ones([1, 1, 2, 2, 2], &device).require_grad();
        let weights = Tensor::<5>::full([1, 1, 2, 2, 2], 3.0, &device);
        let canvas = add_window(Tensor::zeros([1, 1, 3, 3, 3], &device), (0, [1; 3]), (&window, 0), Some(&weights));
        let gradient = window.grad(&canvas.sum().backward()).expect("a gradient");
        assert_eq!(gradient.into_data().try_to_vec::<f32>().expect("f32"), [3.0; 8]);
    }
}
