//! Norms that would have a single value to normalize: [`check_norms`].

use hearth_nn::layers::find_single_value_norm;
use hearth_nn::networks::{AnyNetwork, Network};

use crate::plan::{Plan, voxels};
use hearth_recipe::{At, Outcome};

/// The maximum number of voxels of a crop that is sent through the network before a training. A pass of
/// larger ones takes seconds; the first step of the training checks them.
const PROBED: usize = 64 * 64 * 64;

/// Sends a crop and a window of zeros through the network, without its products.
///
/// # Errors
/// A norm with a single value for each channel or group, at the key of the crop's or the window's size.
pub(super) fn check_norms(plan: &Plan, network: &AnyNetwork) -> Outcome {
    let crop = plan.crop(network.spatial_dims());
    check(plan, network, crop, || plan.key_of_crop())?;
    // Instance and group norms have no running statistics: the windows of a prediction need several values, too.
    match plan.recipe.inferer.shared().window() {
        Some((key, sizes)) => check(plan, network, voxels(&sizes, network.spatial_dims()), || format!("inferer.{key}")),
        None => Ok(()),
    }
}

fn check(plan: &Plan, network: &AnyNetwork, size: Option<[usize; 3]>, key: impl FnOnce() -> String) -> Outcome {
    let Some([x, y, z]) = size.filter(|size| size.iter().product::<usize>() <= PROBED) else { return Ok(()) };
    let shape = [1, network.channels()[0], x, y, z];
    match network.check_input(shape).is_ok().then(|| find_single_value_norm(network, shape)).flatten() {
        Some(norm) => Err(plan.document.error_at(&key(), norm.to_string())),
        None => Ok(()),
    }
}
