//! Recipes that continue from the labels of an earlier stage of a cascade.

use hearth_registry::{Document, Fault, Node};

use super::Recipe;

/// The transform that makes channels of them.
const STEP: &str = "NnunetPreviousStage";

/// The transform that changes these channels in training.
const CHANGES: &str = "RandNnunetPreviousStage";

/// What a recipe reads of an earlier stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousStage {
    /// The key of its labels.
    pub key: String,
    /// The labels that become channels of the image.
    pub labels: Vec<i64>,
}

impl PreviousStage {
    /// What the tables of a chain's transforms read of an earlier stage, if they do.
    pub fn of(transforms: &[Node]) -> Option<Self> {
        let step = transforms.iter().find(|step| step.text("name") == Some(STEP))?;
        let labels = step.get("labels").map_or(&[][..], Node::items);
        let labels = labels.iter().filter_map(|label| label.to_toml().as_integer()).collect();
        Some(PreviousStage { key: step.text("previous_key").unwrap_or("previous").to_owned(), labels })
    }

    /// Removes from the tables of a chain's transforms what reads an earlier stage: what is left needs the
    /// image alone.
    pub fn remove_from(transforms: &mut Vec<Node>) {
        transforms.retain(|step| !step.text("name").is_some_and(|name| name == STEP || name == CHANGES));
        for step in transforms {
            step.remove("previous_key");
        }
    }
}

impl Recipe {
    /// The labels of an earlier stage that the chain takes, if it does.
    pub fn previous_stage(&self) -> Option<PreviousStage> {
        PreviousStage::of(&self.transforms)
    }

    /// Channels of the images as their files have them: those that the network takes, without the
    /// labels of an earlier stage.
    pub fn file_channels(&self) -> usize {
        self.image_channels().saturating_sub(self.previous_stage().map_or(0, |stage| stage.labels.len()))
    }

    /// Fails where a folder is given and nothing reads it.
    pub(super) fn check_previous_stage(&self, document: &Document) -> Result<(), Fault> {
        if self.data.previous_stage.is_some() && self.previous_stage().is_none() {
            let what = format!("this recipe continues from no earlier stage: {STEP} is none of its transforms");
            return Err(document.fault("data.previous_stage", format!("{what}; remove it (--previous-stage)")));
        }
        Ok(())
    }
}
