use hearth_image::OneOrMany;
use hearth_registry::{Fault, Node, entry};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::inner_steps::{InnerSteps, Turns};
use super::weights;
use crate::{Draw, Steps};

/// Applies a random choice of several transforms, in random order: as many as a number drawn from
/// `num_transforms`, with the probabilities of `weights`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::{Flip, ScaleIntensity, SomeOf}};
/// let steps = (Flip::new("image"), ScaleIntensity::new("image"));
/// let step = SomeOf::new(steps).num_transforms(1).weights(vec![1.0, 0.0]);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0, 3.0]))?.to_vec(), [3.0, 2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug)]
pub struct SomeOf {
    steps: InnerSteps,
    num_transforms: Option<OneOrMany<usize>>,
    replace: bool,
    weights: Option<Vec<f64>>,
}

impl SomeOf {
    /// Creates the transform: all steps, in random order.
    pub fn new(transforms: impl Steps) -> Self {
        SomeOf { steps: InnerSteps::new(transforms), num_transforms: None, replace: false, weights: None }
    }

    /// Sets the number of transforms, or its minimum and maximum.
    pub fn num_transforms(mut self, num_transforms: impl Into<OneOrMany<usize>>) -> Self {
        self.num_transforms = Some(num_transforms.into());
        self
    }

    /// Sets whether a transform may be drawn more than once.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Sets how probable each transform is, in proportion to the others.
    pub fn weights(mut self, weights: impl Into<Vec<f64>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// The minimum and maximum number of transforms. A single number is at most that of the steps.
    fn counts(&self) -> [usize; 2] {
        let all = self.steps.len();
        match self.num_transforms.as_ref().map(OneOrMany::as_slice) {
            Some([low, high]) => [*low, *high],
            Some([count]) => [(*count).min(all); 2],
            _ => [all; 2],
        }
    }

    /// Draws the indices of the steps to apply, in order.
    pub fn order(&self, draw: &Draw) -> Vec<usize> {
        let [low, high] = self.counts();
        let count = low + draw.below((high.saturating_sub(low) + 1) as u64) as usize;
        let mut weights = self.weights.clone().unwrap_or_else(|| vec![1.0; self.steps.len()]);
        let mut next = || {
            let index = weights::draw_index(&weights, draw);
            if let Some(weight) = weights.get_mut(index).filter(|_| !self.replace) {
                *weight = 0.0;
            }
            index
        };
        (0..count).map(|_| next()).collect()
    }

    fn turns(&self) -> Turns {
        match self.counts()[0] {
            0 => Turns::Any,
            least if least == self.steps.len() && !self.replace => Turns::All,
            _ => Turns::AtLeastOne,
        }
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let (all, [low, high]) = (self.steps.len(), self.counts());
        let numbers = self.num_transforms.as_ref().map_or(1, |numbers| numbers.as_slice().len());
        if !(1..=2).contains(&numbers) {
            return Err(Fault::at("num_transforms", format!("has {numbers} numbers; expected one, or two")));
        }
        if low > high || high > all {
            let what = format!("{low} to {high} is not a range within 0 to {all}, the number of transforms");
            return Err(Fault::at("num_transforms", what));
        }
        let Some(weights) = &self.weights else { return Ok(()) };
        weights::check(weights, all)?;
        let possible = weights.iter().filter(|weight| **weight > 0.0).count();
        if !self.replace && possible < high {
            let what = format!("{possible} are above 0, but up to {high} different transforms are drawn");
            return Err(Fault::at("weights", what));
        }
        Ok(())
    }

    fn parameters(&self) -> [(String, serde_json::Value); 3] {
        [
            ("num_transforms".to_owned(), json!(self.num_transforms)),
            ("replace".to_owned(), json!(self.replace)),
            ("weights".to_owned(), json!(self.weights)),
        ]
    }
}

transform_of_steps!(SomeOf);

/// Applies a random choice of several transforms, in random order.
///
/// `num_transforms` is their number, or its minimum and maximum; by default all are applied. With
/// `replace` a transform may be applied more than once. `weights` are the probabilities of the
/// transforms, by default the same. The transforms have `keys` of their own. Validation and
/// prediction omit the step, and caches end before it. MONAI's `lazy`, `overrides`, `map_items` and
/// `unpack_items` have no counterpart: `data.lazy` holds for these transforms too.
///
/// ```
/// # use hearth_transforms::Pipeline;
/// let steps = "[{ name = 'Flip', keys = 'image' }, { name = 'ScaleIntensity', keys = 'image' }]";
/// let table = format!("[[transforms]]\nname = 'SomeOf'\ntransforms = {steps}\nnum_transforms = 1");
/// let chain = Pipeline::from_toml(&table)?;
/// assert_eq!(chain.describe()[0]["num_transforms"], 1);
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SomeOfTable {
    /// Transforms: tables with a `name` and parameters.
    transforms: Vec<Node>,
    /// Number of transforms that are applied, or its minimum and maximum; by default all.
    #[serde(default)]
    num_transforms: Option<OneOrMany<usize>>,
    /// Whether a transform may be drawn more than once.
    #[serde(default)]
    replace: bool,
    /// Probability of each transform, in proportion to the others; by default the same.
    #[serde(default)]
    weights: Option<Vec<f64>>,
}

entry!(
    dyn crate::Transform => SomeOfTable,
    name: "SomeOf",
    example: r#"transforms = [
    { name = "RandFlip", keys = ["image", "label"], prob = 1.0, spatial_axis = 0 },
    { name = "RandGaussianNoise", keys = ["image"], prob = 1.0 },
    { name = "RandScaleIntensity", keys = ["image"], factors = 0.2, prob = 1.0 },
]
num_transforms = [1, 2]"#,
    build: |node| {
        let SomeOfTable { transforms, num_transforms, replace, weights } = hearth_registry::read(node)?;
        Ok(Box::new(SomeOf { steps: InnerSteps::from_nodes(&transforms)?, num_transforms, replace, weights }))
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use crate::transforms::Flip;

    fn some() -> SomeOf {
        SomeOf::new([0; 3].map(|_| Flip::new("image")))
    }

    fn orders(step: &SomeOf) -> Vec<Vec<usize>> {
        (0..20_000).map(|epoch| step.order(&DrawKey::new(7, epoch, 0).draw("case", 0, 0))).collect()
    }

    /// The share of the orders for which something holds is that of the closed form, within five
    /// standard deviations.
    fn has_share(orders: &[Vec<usize>], holds: impl Fn(&[usize]) -> bool, share: f64) {
        let found = orders.iter().filter(|order| holds(order)).count() as f64 / orders.len() as f64;
        let deviation = (share * (1.0 - share) / orders.len() as f64).sqrt();
        assert!((found - share).abs() <= 5.0 * deviation, "{found} for {share}");
    }

    #[test]
    fn numbers_of_transforms_are_uniform() {
        let found = orders(&some().num_transforms([0, 3]));
        (0..4).for_each(|count| has_share(&found, |order| order.len() == count, 0.25));
        assert!(orders(&some().num_transforms(9)).iter().all(|order| order.len() == 3));
    }

    #[test]
    fn steps_are_drawn_one_after_the_other_from_those_that_are_left() {
        let found = orders(&some().num_transforms(2).weights(vec![1.0, 2.0, 5.0]));
        for (first, second, share) in
            [(0, 1, 1.0 / 8.0 * 2.0 / 7.0), (1, 2, 2.0 / 8.0 * 5.0 / 6.0), (2, 0, 5.0 / 8.0 * 1.0 / 3.0), (2, 2, 0.0)]
        {
            has_share(&found, |order| order == [first, second], share);
        }
    }

    #[test]
    fn with_replacement_draws_are_independent() {
        let found = orders(&some().num_transforms(2).weights(vec![1.0, 2.0, 5.0]).replace(true));
        for (first, second, share) in [(2, 2, 25.0 / 64.0), (0, 1, 2.0 / 64.0), (1, 0, 2.0 / 64.0)] {
            has_share(&found, |order| order == [first, second], share);
        }
    }
}
