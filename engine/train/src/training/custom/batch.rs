//! The batch in a step of the user's own: [`StepBatch`].

use burn::tensor::Tensor;
use hearth_engine::{BoxError, HostError};

use crate::batch::feed::Feed;
use crate::batch::step_error::StepError;

/// The current batch on the trainer's device, as handlers have left it. Tensors are
/// `[b, c, x, y, z]` and outside autodiff.
pub struct StepBatch<'a> {
    feed: &'a Feed,
}

impl<'a> StepBatch<'a> {
    pub(crate) fn new(feed: &'a Feed) -> Self {
        Self { feed }
    }

    /// The image, `[b, c, x, y, z]`: the tensor of the trainer's image key.
    ///
    /// # Errors
    /// If the batch has none.
    pub fn image(&self) -> Result<Tensor<5>, StepError> {
        self.tensor("image")
    }

    /// The label, `[b, c, x, y, z]`: the tensor of the trainer's label key; numbers of cases are
    /// `[b, n, 1, 1, 1]`.
    ///
    /// # Errors
    /// If the batch has none.
    pub fn label(&self) -> Result<Tensor<5>, StepError> {
        self.tensor("label")
    }

    /// The tensor of any key of the batch, `[b, c, x, y, z]`; the keys of image and label are `image`
    /// and `label`.
    ///
    /// # Errors
    /// If the batch has none of this key; the message lists those that it has.
    pub fn tensor(&self, key: &str) -> Result<Tensor<5>, StepError> {
        self.feed.named(key)
    }

    /// The names of the cases, one for each item.
    pub fn cases(&self) -> &'a [String] {
        self.feed.cases()
    }

    /// The voxel size of each item, in mm.
    pub fn spacing(&self) -> Vec<[f64; 3]> {
        self.feed.spacing()
    }

    /// The numbers of each item: a field of its case, or a property of an image (`image.spacing`).
    ///
    /// # Errors
    /// If there are none of this name; the message lists the existing ones.
    pub fn numbers(&self, name: &str) -> Result<Vec<Vec<f64>>, BoxError> {
        self.feed.facts().numbers(name).map_err(boxed)
    }

    /// The text of each item: a field of its case, or a property of an image (`image.path`).
    ///
    /// # Errors
    /// If there are none of this name; the message lists the existing ones.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, BoxError> {
        self.feed.facts().texts(name).map_err(boxed)
    }
}

fn boxed(error: HostError) -> BoxError {
    Box::new(error)
}
