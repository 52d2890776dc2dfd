use hearth_registry::{Fault, Node, entry};
use schemars::JsonSchema;
use serde::Deserialize;

use super::inner_steps::{InnerSteps, Turns};
use crate::{Draw, Steps};

/// Applies all of several transforms, in an order that is drawn for each case.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::{Flip, RandomOrder, ScaleIntensity}};
/// let step = RandomOrder::new((Flip::new("image"), ScaleIntensity::new("image")));
/// assert!(tiny::is_near(&tiny::apply(step, tiny::line([1.0, 2.0, 3.0]))?, [1.0, 0.5, 0.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug)]
pub struct RandomOrder {
    steps: InnerSteps,
}

impl RandomOrder {
    /// Creates the transform.
    pub fn new(transforms: impl Steps) -> Self {
        RandomOrder { steps: InnerSteps::new(transforms) }
    }

    /// Draws the order of the steps, by index.
    pub fn order(&self, draw: &Draw) -> Vec<usize> {
        draw.permutation(self.steps.len())
    }

    fn turns(&self) -> Turns {
        Turns::All
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn parameters(&self) -> [(String, serde_json::Value); 0] {
        []
    }
}

transform_of_steps!(RandomOrder);

/// Applies all of several transforms, in a random order.
///
/// The transforms have `keys` of their own. Validation and prediction omit the step, and caches end
/// before it. MONAI's `lazy`, `overrides`, `map_items` and `unpack_items` have no counterpart:
/// `data.lazy` holds for these transforms too.
///
/// ```
/// # use hearth_transforms::Pipeline;
/// let steps = "[{ name = 'Flip', keys = 'image' }, { name = 'ScaleIntensity', keys = 'image' }]";
/// let chain = Pipeline::from_toml(&format!("[[transforms]]\nname = 'RandomOrder'\ntransforms = {steps}"))?;
/// assert_eq!(chain.describe()[0]["transforms"][1]["name"], "ScaleIntensity");
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RandomOrderTable {
    /// Transforms: tables with a `name` and parameters.
    transforms: Vec<Node>,
}

entry!(
    dyn crate::Transform => RandomOrderTable,
    name: "RandomOrder",
    example: r#"transforms = [
    { name = "RandScaleIntensity", keys = ["image"], factors = 0.2, prob = 0.5 },
    { name = "RandGaussianSmooth", keys = ["image"], prob = 0.5 },
]"#,
    build: |node| {
        let RandomOrderTable { transforms } = hearth_registry::read(node)?;
        Ok(Box::new(RandomOrder { steps: InnerSteps::from_nodes(&transforms)? }))
    }
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::DrawKey;
    use crate::transforms::Flip;

    #[test]
    fn every_order_is_equally_probable() {
        let step = RandomOrder::new([0; 3].map(|_| Flip::new("image")));
        let mut seen: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        for epoch in 0..12_000 {
            *seen.entry(step.order(&DrawKey::new(7, epoch, 0).draw("case", 0, 0))).or_default() += 1;
        }
        // 2000 each, with a standard deviation of 41.
        assert!(seen.len() == 6 && seen.values().all(|count| (1795..2205).contains(count)), "{seen:?}");
    }
}
