//! What images and data sets of nnU-Net look like, for comparison with each other.

use hearth_nnunet::Volume;
use hearth_nnunet::planner;
use hearth_run::{Fingerprint, ImageFacts, percentiles_of};

/// z, y, x as x, y, z. The axes of an image of nnU-Net are taken for those of the world.
fn turned([z, y, x]: [f64; 3]) -> [f64; 3] {
    [x, y, z]
}

fn grid(spacing: [f64; 3], shape: [usize; 3]) -> ImageFacts {
    let (spacing_mm, shape) = (turned(spacing), turned(shape.map(|n| n as f64)));
    let extent_mm = std::array::from_fn(|axis| spacing_mm[axis] * shape[axis]);
    ImageFacts { spacing_mm, extent_mm, channels: Vec::new() }
}

/// The facts of an image `[channel, z, y, x]`.
pub(crate) fn facts_of(volume: &Volume, spacing: [f64; 3]) -> ImageFacts {
    ImageFacts { channels: percentiles_of(&volume.data, volume.shape), ..grid(spacing, volume.shape) }
}

/// What `dataset_fingerprint.json` tells. Its sizes are those without empty borders, so that the field of
/// view has no greatest size.
pub(crate) fn fingerprint_of(known: &planner::Fingerprint) -> Option<Fingerprint> {
    let cases = known.spacings.iter().zip(&known.shapes_after_crop);
    let images: Vec<ImageFacts> = cases.map(|(spacing, shape)| grid(*spacing, *shape)).collect();
    let mut found = Fingerprint::over(&images)?;
    found.extent_mm.iter_mut().for_each(|[_, most]| *most = f64::INFINITY);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_data_set_of_nnunet_is_compared_by_spacing_and_least_size() {
        let known = json!({ "spacings": [[5.0, 0.7, 0.8], [2.0, 0.9, 0.8]], "shapes_after_crop": [[60, 400, 400], [200, 500, 512]] });
        let known = fingerprint_of(&planner::Fingerprint::parse(&known).expect("sound")).expect("cases");
        assert_eq!(known.spacing_mm, [[0.8, 0.8], [0.7, 0.9], [2.0, 5.0]]);
        let mut volume = Volume::<f32>::zeros(1, [100, 50, 60]);
        volume.data[0] = 9.0;
        let facts = facts_of(&volume, [4.0, 0.8, 0.8]);
        assert_eq!((facts.spacing_mm, facts.extent_mm), ([0.8, 0.8, 4.0], [48.0, 40.0, 400.0]));
        let said = known.unlike(&facts);
        assert_eq!(said, ["field of view 40 mm (back to front), trained on at least 280 mm"]);
        assert_eq!(known.unlike(&facts_of(&Volume::zeros(1, [100, 500, 500]), [4.0, 0.8, 0.8])), Vec::<String>::new());
    }
}
