//! Loops over the values of an image.

use burn::tensor::{Tensor, TensorData};
use hearth_image::Image;
use hearth_kernels::host;
use rayon::prelude::*;

/// The number of values that one thread changes at a time.
const PIECE: usize = 1 << 15;

/// The number of values of a block: 16 KiB of memory.
const BLOCK: usize = 1 << 12;

/// Returns the number of groups of values (one for all, or one per channel) and the size of each;
/// at least 1.
pub(super) fn groups(image: &Image, channel_wise: bool) -> (usize, usize) {
    let [c, x, y, z] = image.data.dims();
    if channel_wise { (c, (x * y * z).max(1)) } else { (1, (c * x * y * z).max(1)) }
}

/// Calls `edit` on pieces of the values, in threads.
pub(super) fn each_piece(values: &mut [f32], edit: impl Fn(&mut [f32]) + Send + Sync) {
    values.par_chunks_mut(PIECE).for_each(edit);
}

/// Replaces every value on the CPU; `elsewhere` does the same with tensor operations.
pub(in crate::transforms) fn map(
    mut image: Image,
    change: impl Fn(f32) -> f32 + Sync,
    elsewhere: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Image {
    let changed = host::change(image.data, |values| {
        each_piece(values, |piece| piece.iter_mut().for_each(|v| *v = change(*v)));
    });
    image.data = changed.unwrap_or_else(elsewhere);
    image
}

/// Replaces values in blocks that fit into the nearest cache, for changes of several steps.
pub(super) fn map_blocks(
    mut image: Image,
    change: impl Fn(&mut [f32]) + Send + Sync,
    elsewhere: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Image {
    let changed = host::change(image.data, |values| {
        each_piece(values, |piece| piece.chunks_mut(BLOCK).for_each(&change));
    });
    image.data = changed.unwrap_or_else(elsewhere);
    image
}

/// Replaces the values of two images of the same shape: `change(first, second)`.
pub(in crate::transforms) fn zip(
    mut image: Image,
    other: &Tensor<4>,
    change: impl Fn(f32, f32) -> f32 + Sync,
    elsewhere: impl FnOnce(Tensor<4>, Tensor<4>) -> Tensor<4>,
) -> Image {
    if !(host::is_host(&image.data.device()) && host::is_host(&other.device())) {
        image.data = elsewhere(image.data, other.clone());
        return image;
    }
    on_host(image, |values| {
        host::read(other, |others| {
            let pairs = values.par_chunks_mut(PIECE).zip(others.par_chunks(PIECE));
            pairs.for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a = change(*a, *b)));
        });
    })
}

/// Changes the values (row-major) on the CPU; those on another device are copied there and back.
pub(in crate::transforms) fn on_host(mut image: Image, edit: impl FnOnce(&mut [f32])) -> Image {
    let mut edit = Some(edit);
    let mut run = |values: &mut [f32]| {
        if let Some(edit) = edit.take() {
            edit(values);
        }
    };
    match host::change(image.data, &mut run) {
        Ok(data) => image.data = data,
        Err(data) => {
            image.data = data;
            let mut values = image.to_vec();
            run(&mut values);
            let (dims, device) = (image.data.dims(), image.data.device());
            image.data = Tensor::from_data(TensorData::new(values, dims), &device);
        }
    }
    image
}
