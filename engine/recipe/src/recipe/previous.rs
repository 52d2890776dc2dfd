//! Recipes that continue from the labels of an earlier stage of a cascade.

use hearth_data::all_steps;
use hearth_registry::{Document, Fault, Node};

use super::Recipe;

/// The transform that turns these labels into channels.
const STEP: &str = "NnunetPreviousStage";

/// The transform that augments these channels in training.
const CHANGES: &str = "RandNnunetPreviousStage";

/// The input that a recipe reads from an earlier stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousStage {
    /// The key of the labels.
    pub key: String,
    /// The labels that become channels of the image.
    pub labels: Vec<i64>,
}

impl PreviousStage {
    /// The input from an earlier stage that a chain's transforms read, if any.
    pub fn of(transforms: &[Node]) -> Option<Self> {
        let steps = all_steps(transforms);
        let (_, step) = steps.into_iter().find(|(_, step)| step.text("name") == Some(STEP))?;
        let labels = step.get("labels").map_or(&[][..], Node::items);
        let labels = labels.iter().filter_map(|label| label.to_toml().as_integer()).collect();
        Some(PreviousStage { key: step.text("previous_key").unwrap_or("previous").to_owned(), labels })
    }

    /// Removes everything that reads an earlier stage from the tables of a chain's transforms; the
    /// rest needs only the image.
    pub fn remove_from(transforms: &mut Vec<Node>) {
        transforms.retain(|step| !step.text("name").is_some_and(|name| name == STEP || name == CHANGES));
        for step in transforms {
            step.remove("previous_key");
        }
    }
}

impl Recipe {
    /// The input from an earlier stage that the chain reads, if any.
    pub fn previous_stage(&self) -> Option<PreviousStage> {
        PreviousStage::of(&self.transforms)
    }

    /// The channels of the image files: the network's input channels, without the labels of an
    /// earlier stage.
    pub fn file_channels(&self) -> usize {
        self.image_channels().saturating_sub(self.previous_stage().map_or(0, |stage| stage.labels.len()))
    }

    /// Fails if a folder is given that no transform reads.
    pub(super) fn check_previous_stage(&self, document: &Document) -> Result<(), Fault> {
        if self.data.previous_stage.is_some() && self.previous_stage().is_none() {
            let what = format!("this recipe continues from no earlier stage: it has no transform {STEP}");
            return Err(document.fault("data.previous_stage", format!("{what}; remove it (--previous-stage)")));
        }
        Ok(())
    }
}
