//! One configuration: patch, network and batch that fit into the memory.

use serde_json::{Value, json};

use super::Planner;
use super::topology::Topology;

/// The input of a configuration's plan.
pub(super) struct Given<'a> {
    pub planner: Planner,
    /// The voxel size in mm; two numbers for a 2-D configuration.
    pub spacing: &'a [f64],
    /// The median size of the images in voxels.
    pub shape: &'a [f64],
    /// The memory estimate that fits.
    pub reference: f64,
    /// The number of voxels of all images.
    pub dataset_voxels: f64,
    /// The number of entries in the data set's labels.
    pub heads: usize,
    pub identifier: String,
    pub channels: &'a [String],
    pub relative_size: f64,
}

/// A planned configuration.
pub(super) struct Planned {
    pub patch: Vec<usize>,
    json: Value,
}

impl Planned {
    /// The configuration as JSON for plans.
    pub fn json(self, batch_dice: bool) -> Value {
        let mut json = self.json;
        json["batch_dice"] = json!(batch_dice);
        json
    }
}

pub(super) fn configuration(given: &Given<'_>) -> Planned {
    let Given { planner, spacing, shape, reference, .. } = *given;
    let dims = spacing.len();
    let (volume, reference_batch, most) =
        if dims == 2 { (2048.0 * 2048.0, 12.0, 512) } else { (256.0 * 256.0 * 256.0, 2.0, 320) };
    // The shape of a patch that is a cube in mm.
    let aspect: Vec<f64> = spacing.iter().map(|size| 1.0 / size).collect();
    let scale = f64::powf(volume / aspect.iter().product::<f64>(), 1.0 / dims as f64);
    let patch = aspect.iter().zip(shape).map(|(axis, most)| (axis * scale).round_ties_even().min(*most));
    let mut topology = Topology::new(spacing, &patch.collect::<Vec<f64>>());
    let mut estimate = estimated(&topology, planner, most, given.heads);
    loop {
        let step = if planner.is_residual() { estimate } else { estimate / reference_batch * 2.0 };
        if step <= reference {
            break;
        }
        // The axis in which the patch is the largest part of an image; the last of several equal ones.
        let share = |axis: usize| topology.patch[axis] as f64 / shape[axis];
        let axis = (1..dims).fold(0, |best, axis| if share(axis) >= share(best) { axis } else { best });
        let mut smaller: Vec<f64> = topology.patch.iter().map(|size| *size as f64).collect();
        let mut tried = smaller.clone();
        tried[axis] -= topology.divisor[axis] as f64;
        smaller[axis] -= Topology::new(spacing, &tried).divisor[axis] as f64;
        if smaller[axis] < 1.0 {
            break;
        }
        topology = Topology::new(spacing, &smaller);
        estimate = estimated(&topology, planner, most, given.heads);
    }
    let voxels = topology.patch.iter().product::<usize>() as f64;
    let most_batch = (given.dataset_voxels * planner.largest_share() / voxels).round_ties_even();
    let batch = (reference / estimate * reference_batch).round_ties_even().min(most_batch).max(2.0) as u64;
    let json = json!({
        "data_identifier": given.identifier,
        "preprocessor_name": "DefaultPreprocessor",
        "batch_size": batch,
        "patch_size": topology.patch,
        "median_image_size_in_voxels": shape,
        "spacing": spacing,
        "normalization_schemes": given.channels.iter().map(|name| scheme(name)).collect::<Vec<_>>(),
        "use_mask_for_norm": given.channels.iter().map(|name| {
            scheme(name) == "ZScoreNormalization" && given.relative_size < 0.75
        }).collect::<Vec<_>>(),
        "resampling_fn_data": "resample_data_or_seg_to_shape",
        "resampling_fn_seg": "resample_data_or_seg_to_shape",
        "resampling_fn_data_kwargs": resampling(false, 3),
        "resampling_fn_seg_kwargs": resampling(true, 1),
        "resampling_fn_probabilities": "resample_data_or_seg_to_shape",
        "resampling_fn_probabilities_kwargs": resampling(false, 1),
        "architecture": architecture(&topology, planner, most),
    });
    Planned { patch: topology.patch, json }
}

fn resampling(is_seg: bool, order: u8) -> Value {
    json!({"is_seg": is_seg, "order": order, "order_z": 0, "force_separate_z": null})
}

/// The normalisation of a channel with this name.
fn scheme(channel: &str) -> &'static str {
    match channel.to_lowercase().as_str() {
        "ct" => "CTNormalization",
        "nonorm" => "NoNormalization",
        "rescale_to_0_1" => "RescaleTo01Normalization",
        "rgb_to_0_1" => "RGBTo01Normalization",
        _ => "ZScoreNormalization",
    }
}

/// The number of channels of a stage.
fn features(stage: usize, most: usize) -> usize {
    (32 << stage.min(16)).min(most)
}

/// The number of blocks of a residual stage.
fn blocks(stage: usize) -> usize {
    [1, 3, 4].get(stage).copied().unwrap_or(6)
}

/// The number of output values of all convolutions of a network, which estimates its memory.
fn estimated(topology: &Topology, planner: Planner, most: usize, heads: usize) -> f64 {
    let mut sizes = topology.patch.clone();
    let mut total = 0;
    let mut skips = Vec::new();
    for (stage, stride) in topology.strides.iter().enumerate() {
        let channels = features(stage, most);
        sizes.iter_mut().zip(stride).for_each(|(size, stride)| *size /= stride);
        let values = channels * sizes.iter().product::<usize>();
        let changes = stage > 0 && (features(stage - 1, most) != channels || stride.contains(&2));
        total += match planner.is_residual() {
            false => 2 * values,
            true => {
                let stem = if stage == 0 { values } else { 0 };
                let shortcut = if changes { values } else { 0 };
                stem + 2 * blocks(stage) * values + shortcut
            }
        };
        skips.push((values, channels));
    }
    let per_step = if planner.is_residual() { 2 } else { 3 };
    skips.pop();
    total += skips.iter().map(|(values, _)| per_step * values).sum::<usize>();
    total += skips.first().map_or(0, |(values, channels)| heads * (values / channels));
    total as f64
}

fn architecture(topology: &Topology, planner: Planner, most: usize) -> Value {
    let stages = topology.strides.len();
    let dims = topology.patch.len();
    let (class, counted, encoder, decoder): (_, _, Vec<usize>, _) = match planner.is_residual() {
        false => ("PlainConvUNet", "n_conv_per_stage", vec![2; stages], 2),
        true => ("ResidualEncoderUNet", "n_blocks_per_stage", (0..stages).map(blocks).collect(), 1),
    };
    let mut arguments = json!({
        "n_stages": stages,
        "features_per_stage": (0..stages).map(|stage| features(stage, most)).collect::<Vec<_>>(),
        "conv_op": format!("torch.nn.modules.conv.Conv{dims}d"),
        "kernel_sizes": topology.kernels,
        "strides": topology.strides,
    });
    arguments[counted] = json!(encoder);
    arguments["n_conv_per_stage_decoder"] = json!(vec![decoder; stages - 1]);
    arguments["conv_bias"] = json!(true);
    arguments["norm_op"] = json!(format!("torch.nn.modules.instancenorm.InstanceNorm{dims}d"));
    arguments["norm_op_kwargs"] = json!({"eps": 1e-5, "affine": true});
    arguments["dropout_op"] = Value::Null;
    arguments["dropout_op_kwargs"] = Value::Null;
    arguments["nonlin"] = json!("torch.nn.LeakyReLU");
    arguments["nonlin_kwargs"] = json!({"inplace": true});
    json!({
        "network_class_name": format!("dynamic_network_architectures.architectures.unet.{class}"),
        "arch_kwargs": arguments,
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
    })
}
