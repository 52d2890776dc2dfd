//! What was found in an image, on its way from the network to whoever writes it on another thread.

use hearth_data::Image;
use serde_json::{Value, json};

use crate::error::Outcome;
use crate::run::{Segmented, Trained};

/// Where results come from, for whoever writes them while the network is at the next image.
pub struct Origin {
    /// What the run is called.
    pub title: String,
    /// The checkpoint's name.
    pub checkpoint: String,
    /// The sum of its weights.
    pub weights: String,
    /// What headers say.
    pub made_by: String,
    /// Names of labels or regions.
    pub labels: Vec<String>,
    /// The labels that make up each region, of recipes that say so.
    pub region_labels: Option<Value>,
    /// Of an ensemble, its runs.
    pub members: Option<Vec<String>>,
}

impl Origin {
    /// Those of a network.
    pub fn of(trained: &Trained) -> Self {
        let recipe = &trained.plan.recipe;
        Self {
            title: recipe.title(),
            checkpoint: trained.checkpoint.clone(),
            weights: trained.weights.clone(),
            made_by: trained.made_by(),
            labels: recipe.labels.clone(),
            region_labels: recipe.learns().region_labels().map(|classes| json!(classes)),
            members: trained.ensemble.as_ref().map(|ensemble| ensemble.members().to_vec()),
        }
    }
}

/// What the network says of an image.
pub struct Found {
    /// Numbers, or a map.
    pub result: Predicted,
    /// Of `--picture`; the results are written although it fails.
    pub picture: Option<Outcome<Vec<u8>>>,
}

/// Numbers, or a map.
pub enum Predicted {
    /// A number for each label.
    Scores(Vec<f32>),
    /// With the image as it is written.
    Map(Box<Segmented>, Box<Image>),
}
