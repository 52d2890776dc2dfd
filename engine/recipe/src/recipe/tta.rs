//! `[tta]`: test-time augmentation.

use std::sync::Arc;

use hearth_data::{Pipeline, all_steps, for_each_step};
use hearth_nn::inferers::Inferer;
use hearth_registry::{Document, Fault, Node};
use hearth_train::TestTimeAugmentation;
use serde::{Deserialize, Serialize};

/// The default number of draws.
const EXAMPLES: usize = 10;

/// The augmentation of images in `hearth evaluate` and `hearth predict`; none by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tta {
    /// All combinations of flips along these axes: 0, 1, 2.
    pub flips: Vec<usize>,
    /// Random transforms without their keys, drawn `num_examples` times.
    pub transforms: Vec<Node>,
    /// The number of draws; by default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_examples: Option<usize>,
    /// Maps predictions back by the nearest voxel instead of linearly.
    pub nearest_interp: bool,
}

impl Tta {
    /// Flips along all axes.
    pub fn all_flips() -> Self {
        Self { flips: vec![0, 1, 2], ..Self::default() }
    }

    /// Wraps an inferer in the augmentation, checked; errors point at the recipe. `None` without
    /// augmentation.
    pub fn build(
        &self,
        document: &Document,
        inner: Arc<dyn Inferer>,
        seed: u64,
    ) -> Result<Option<TestTimeAugmentation>, Fault> {
        let unused = |key: &str| {
            let message = format!("{key} is for random `transforms`; there are none");
            Err(document.fault(&format!("tta.{key}"), message))
        };
        match (self.flips.is_empty(), self.transforms.is_empty()) {
            (_, true) if self.num_examples.is_some() => unused("num_examples"),
            (_, true) if self.nearest_interp => unused("nearest_interp"),
            (true, true) => Ok(None),
            (false, false) => {
                let message = "give flips or transforms, not both; RandFlip is a transform too";
                Err(document.fault("tta.transforms", message))
            }
            (false, true) => {
                let made = TestTimeAugmentation::flips(inner, &self.flips);
                made.map(Some).map_err(|error| document.fault("tta.flips", error.to_string()))
            }
            (true, false) => {
                let examples = self.num_examples.unwrap_or(EXAMPLES);
                let pipeline = Arc::new(self.pipeline()?);
                let made = TestTimeAugmentation::random(inner, pipeline, examples, seed, self.nearest_interp);
                let place = if examples == 0 { "tta.num_examples" } else { "tta.transforms" };
                made.map(Some).map_err(|error| document.fault(place, error.to_string()))
            }
        }
    }

    fn pipeline(&self) -> Result<Pipeline, Fault> {
        let mut tables = Vec::with_capacity(self.transforms.len());
        for (index, table) in self.transforms.iter().enumerate() {
            for (path, step) in all_steps(std::slice::from_ref(table)) {
                if let Some(keys) = step.get("keys") {
                    let message =
                        "remove `keys`: a transform of [tta] works on the image, and is undone on the prediction";
                    let path = path.split_once('.').map(|(_, inner)| format!(".{inner}")).unwrap_or_default();
                    return Err(Fault::on(keys, message).under(&format!("tta.transforms.{index}{path}.keys")));
                }
            }
            let mut table = table.clone();
            for_each_step(&mut table, &mut |step| {
                // A step around others works on their keys.
                if step.get("transforms").is_none() && !step.get("transform").is_some_and(Node::is_table) {
                    step.insert("keys", Node::from(vec![TestTimeAugmentation::KEY]));
                }
            });
            tables.push(table);
        }
        let pipeline = Pipeline::from_nodes(&tables).map_err(|fault| fault.under("tta.transforms"))?;
        match pipeline.steps().iter().position(|step| step.mixes_cases()) {
            Some(index) => {
                let name = pipeline.steps()[index].name();
                let message = format!("{name} combines the cases of a batch, and a prediction has a single case");
                Err(Fault::at(format!("tta.transforms.{index}"), message))
            }
            None => Ok(pipeline),
        }
    }

    /// A short description.
    pub fn words(&self) -> String {
        match (self.flips.is_empty(), self.transforms.is_empty()) {
            (false, _) => {
                let axes: Vec<String> = self.flips.iter().map(usize::to_string).collect();
                format!("flips along axis {}", axes.join(", "))
            }
            (true, false) => format!("{} random examples", self.num_examples.unwrap_or(EXAMPLES)),
            (true, true) => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tta(steps: &str) -> Result<Pipeline, Fault> {
        let document = Document::parse("recipe", format!("transforms = [{steps}]"))?;
        Tta { transforms: document.find("transforms").items().to_vec(), ..Tta::default() }.pipeline()
    }

    #[test]
    fn steps_within_steps_work_on_the_image() {
        let steps = "{ name = 'OneOf', transforms = [{ name = 'RandFlip' }, { name = 'Range', transform = { name = \
                     'RandRotate90' } }] }";
        let described = tta(steps).expect("sound").describe();
        let inner = &described[0]["transforms"];
        assert_eq!(inner[0]["keys"][0], TestTimeAugmentation::KEY);
        assert_eq!(inner[1]["transform"]["keys"][0], TestTimeAugmentation::KEY);
        let fault = tta("{ name = 'OneOf', transforms = [{ name = 'RandFlip', keys = 'image' }] }").expect_err("keys");
        assert_eq!(fault.path, "tta.transforms.0.transforms.0.keys");
    }

    #[test]
    fn mixtures_of_cases_are_refused() {
        let fault = tta("{ name = 'RandFlip' }, { name = 'MixUp' }").expect_err("one case");
        assert!(fault.path == "tta.transforms.1" && fault.message.contains("MixUp"), "{fault}");
    }
}
