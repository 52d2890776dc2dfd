//! Position embeddings of patches (`monai.networks.blocks.pos_embed_utils`).

use hearth_kernels::counter_rng::Key;

use crate::layers::ConfigError;

/// The positions of a grid in row-major order.
fn places(grid: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [_, ny, nz] = grid;
    (0..grid.iter().product()).map(move |i| [i / (ny * nz), i / nz % ny, i % nz])
}

/// Sines and cosines at decreasing frequencies, in the order second axis, first axis, third axis.
///
/// As in MAE3D (<https://github.com/cvlab-stonybrook/SelfMedMAE>), temperature 10000. `features`
/// must be divisible by twice the number of axes.
pub(super) fn sincos(grid: [usize; 3], features: usize, spatial_dims: usize) -> Result<Vec<f32>, ConfigError> {
    let parts = 2 * spatial_dims;
    if !features.is_multiple_of(parts) {
        let expected = format!("with sincos position embeddings it must be divisible by {parts}");
        return Err(ConfigError::value("hidden_size", features, expected));
    }
    let each = features / parts;
    let frequencies: Vec<f32> = (0..each).map(|i| 1.0 / 10_000.0_f32.powf(i as f32 / each as f32)).collect();
    let axes: &[usize] = if spatial_dims == 3 { &[1, 0, 2] } else { &[1, 0] };
    let mut values = Vec::with_capacity(grid.iter().product::<usize>() * features);
    for place in places(grid) {
        for axis in axes {
            let phases = frequencies.iter().map(|f| place[*axis] as f32 * f);
            values.extend(phases.clone().map(f32::sin));
            values.extend(phases.map(f32::cos));
        }
    }
    Ok(values)
}

/// Sines and cosines along random directions (<https://arxiv.org/abs/2509.02488>), scale 1.
/// `features` must be even.
pub(super) fn fourier(
    grid: [usize; 3],
    features: usize,
    spatial_dims: usize,
    key: Key,
) -> Result<Vec<f32>, ConfigError> {
    if !features.is_multiple_of(2) {
        return Err(ConfigError::value("hidden_size", features, "with fourier position embeddings it must be even"));
    }
    let direction = |i: usize, axis: usize| key.normal((i * spatial_dims + axis) as u64);
    let mut values = Vec::with_capacity(grid.iter().product::<usize>() * features);
    for place in places(grid) {
        let at = |axis: usize| place[axis] as f64 / (grid[axis] - 1).max(1) as f64;
        let phases: Vec<f64> = (0..features / 2)
            .map(|i| std::f64::consts::TAU * (0..spatial_dims).map(|axis| at(axis) * direction(i, axis)).sum::<f64>())
            .collect();
        values.extend(phases.iter().map(|phase| phase.sin() as f32));
        values.extend(phases.iter().map(|phase| phase.cos() as f32));
    }
    Ok(values)
}
