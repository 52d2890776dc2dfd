use hearth_registry::{Fault, Node, entry};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::inner_steps::{InnerSteps, Turns};
use super::weights;
use crate::{Draw, Steps};

/// Applies one of several transforms, drawn with the probabilities of `weights` (by default all the
/// same).
///
/// ```
/// # use hearth_transforms::{tiny, transforms::{Flip, OneOf, ScaleIntensity}};
/// let step = OneOf::new((Flip::new("image"), ScaleIntensity::new("image"))).weights(vec![1.0, 0.0]);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0, 3.0]))?.to_vec(), [3.0, 2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug)]
pub struct OneOf {
    steps: InnerSteps,
    weights: Option<Vec<f64>>,
}

impl OneOf {
    /// Creates the transform: each of these steps is equally probable.
    pub fn new(transforms: impl Steps) -> Self {
        OneOf { steps: InnerSteps::new(transforms), weights: None }
    }

    /// Sets how probable each transform is, in proportion to the others.
    pub fn weights(mut self, weights: impl Into<Vec<f64>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// Draws the index of the step to apply.
    pub fn order(&self, draw: &Draw) -> Vec<usize> {
        vec![match &self.weights {
            Some(weights) => weights::draw_index(weights, draw),
            None => draw.below(self.steps.len() as u64) as usize,
        }]
    }

    fn turns(&self) -> Turns {
        Turns::One
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        self.weights.as_ref().map_or(Ok(()), |weights| weights::check(weights, self.steps.len()))
    }

    fn parameters(&self) -> [(String, serde_json::Value); 1] {
        [("weights".to_owned(), json!(self.weights))]
    }
}

transform_of_steps!(OneOf);

/// Applies one of several transforms, drawn with the probabilities of `weights`.
///
/// The transforms have `keys` of their own. Validation and prediction omit the step, and caches end
/// before it. MONAI's `lazy`, `overrides`, `map_items` and `unpack_items` have no counterpart:
/// `data.lazy` holds for these transforms too.
///
/// ```
/// # use hearth_transforms::Pipeline;
/// let steps = "[{ name = 'Flip', keys = 'image' }, { name = 'ScaleIntensity', keys = 'image' }]";
/// let table = format!("[[transforms]]\nname = 'OneOf'\ntransforms = {steps}\nweights = [3, 1]");
/// let chain = Pipeline::from_toml(&table)?;
/// assert_eq!(chain.describe()[0]["weights"][0], 3.0);
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneOfTable {
    /// Transforms: tables with a `name` and parameters.
    transforms: Vec<Node>,
    /// Probability of each transform, in proportion to the others; by default the same.
    #[serde(default)]
    weights: Option<Vec<f64>>,
}

entry!(
    dyn crate::Transform => OneOfTable,
    name: "OneOf",
    example: r#"transforms = [
    { name = "RandGaussianNoise", keys = ["image"], prob = 1.0 },
    { name = "RandGaussianSmooth", keys = ["image"], prob = 1.0 },
]
weights = [0.7, 0.3]"#,
    build: |node| {
        let OneOfTable { transforms, weights } = hearth_registry::read(node)?;
        Ok(Box::new(OneOf { steps: InnerSteps::from_nodes(&transforms)?, weights }))
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use crate::transforms::Flip;

    #[test]
    fn steps_are_drawn_in_proportion_to_their_weights() {
        let step = |weights: Option<Vec<f64>>| OneOf { weights, ..OneOf::new([0; 4].map(|_| Flip::new("image"))) };
        for (weights, shares) in [(None, [0.25; 4]), (Some(vec![3.0, 0.0, 1.0, 6.0]), [0.3, 0.0, 0.1, 0.6])] {
            let (step, mut seen) = (step(weights), [0_u32; 4]);
            for epoch in 0..20_000 {
                let order = step.order(&DrawKey::new(7, epoch, 0).draw("case", 0, 0));
                assert_eq!(order.len(), 1);
                seen[order[0]] += 1;
            }
            for (seen, share) in seen.into_iter().zip(shares) {
                // Five standard deviations of the share of 20 000 draws.
                let deviation = (share * (1.0 - share) / 20_000.0_f64).sqrt();
                let found = f64::from(seen) / 20_000.0;
                assert!((found - share).abs() <= 5.0 * deviation, "{found} for {share}");
            }
        }
    }
}
