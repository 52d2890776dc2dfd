//! Norms that would have a single value to normalize: [`check_norms`].

use hearth_nn::layers::find_single_value_norm;
use hearth_nn::networks::{AnyNetwork, Network};

use crate::plan::Plan;
use hearth_recipe::{At, Outcome};

/// The maximum number of voxels of a crop that is sent through the network before a training. A pass of
/// larger ones takes seconds; the first step of the training checks them.
const PROBED: usize = 64 * 64 * 64;

/// Sends a crop of zeros through the network, without its products.
///
/// # Errors
/// A norm with a single value for each channel or group, at the key of the crop's size.
pub(super) fn check_norms(plan: &Plan, network: &AnyNetwork) -> Outcome {
    let crop = plan.crop(network.spatial_dims());
    let Some([x, y, z]) = crop.filter(|crop| crop.iter().product::<usize>() <= PROBED) else { return Ok(()) };
    let shape = [1, network.channels()[0], x, y, z];
    match network.check_input(shape).is_ok().then(|| find_single_value_norm(network, shape)).flatten() {
        Some(norm) => Err(plan.document.error_at(&plan.key_of_crop(), norm.to_string())),
        None => Ok(()),
    }
}
