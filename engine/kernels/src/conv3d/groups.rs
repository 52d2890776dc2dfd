//! Grouped convolutions on the CPU: each group of each image is a separate convolution, and all of
//! them run in parallel.

use rayon::prelude::*;

use super::blocked::{Behind, Epilogue};
use super::geometry::Geometry;
use crate::shared::Shared;

/// The number of values of one group of one image, of the input and of the output.
fn lengths(g: &Geometry) -> [usize; 2] {
    [g.channels_in * g.input.iter().product::<usize>(), g.channels_out * g.output.iter().product::<usize>()]
}

/// The convolution by groups; `run` computes one group of one image.
pub fn forward(
    g: &Geometry,
    x: &[f32],
    weight: &[f32],
    behind: Behind<'_>,
    run: impl Fn(&[f32], &[f32], Behind<'_>) -> Vec<f32> + Sync,
) -> Vec<f32> {
    outputs(g, lengths(g), g.channels_out, [x, weight], behind, run)
}

/// The input gradient by groups; `run` computes one group of one image.
pub fn input_gradient(
    g: &Geometry,
    dy: &[f32],
    weight: &[f32],
    behind: Behind<'_>,
    run: impl Fn(&[f32], &[f32], Behind<'_>) -> Vec<f32> + Sync,
) -> Vec<f32> {
    let [input, output] = lengths(g);
    outputs(g, [output, input], g.channels_in, [dy, weight], behind, run)
}

fn outputs(
    g: &Geometry,
    [from, to]: [usize; 2],
    channels: usize,
    [source, weight]: [&[f32]; 2],
    behind: Behind<'_>,
    run: impl Fn(&[f32], &[f32], Behind<'_>) -> Vec<f32> + Sync,
) -> Vec<f32> {
    let (count, weights) = (g.batch * g.groups, g.weight_len());
    let mut out: Vec<f32> = Vec::with_capacity(count * to);
    let shared = Shared::new(&mut out.spare_capacity_mut()[..count * to]);
    (0..count).into_par_iter().for_each(|index| {
        let group = index % g.groups;
        let weight = &weight[group * weights..][..weights];
        let mut behind = of_group(&behind, group, channels);
        behind.plus = behind.plus.map(|plus| &plus[index * to..][..to]);
        let values = run(&source[index * from..][..from], weight, behind);
        // SAFETY: no other task uses the part of this group of this image.
        unsafe { shared.part(index * to, to) }.write_copy_of_slice(&values);
    });
    // SAFETY: every part has been written.
    unsafe { out.set_len(count * to) };
    out
}

/// The epilogue of the channels of one group of all images.
fn of_group<'a>(behind: &Behind<'a>, group: usize, channels: usize) -> Behind<'a> {
    let part = |values: &'a [f32]| &values[group * channels..][..channels];
    let epilogue = behind.epilogue.map(|e| Epilogue {
        scale: part(e.scale),
        offset: part(e.offset),
        slope: if e.slope.len() == 1 { e.slope } else { part(e.slope) },
    });
    Behind { bias: behind.bias.map(part), epilogue, plus: behind.plus, moments: None }
}

/// The weight gradient by groups; `run` computes one group of one image; images are added up in
/// order.
pub fn weight_gradient(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    run: impl Fn(&[f32], &[f32]) -> Vec<f32> + Sync,
) -> Vec<f32> {
    let [input, output] = lengths(g);
    let each = |index: usize| run(&x[index * input..][..input], &dy[index * output..][..output]);
    let parts: Vec<Vec<f32>> = (0..g.batch * g.groups).into_par_iter().map(each).collect();
    let mut images = parts.chunks(g.groups);
    let mut sum = images.next().map(<[_]>::concat).unwrap_or_default();
    for image in images {
        for (sum, value) in sum.iter_mut().zip(image.iter().flatten()) {
            *sum += value;
        }
    }
    sum
}
