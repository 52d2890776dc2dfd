//! What a transform does to the images it works on: [`Effect`].

/// What a transform does to the images it works on, as far as it is known before the first case.
///
/// A recipe is checked with it: whether crops have a size that the network takes, and which steps
/// bring a label to the network's classes while it stays on the grid of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: it checks images, or makes other values of a sample.
    Nothing,
    /// Voxels get other values and stay where they are.
    Values,
    /// Voxels change places; the image keeps its size, up to the order of its axes.
    Moves,
    /// The image gets this size in voxels, along its spatial axes; one number holds for all. Sizes
    /// of 0 and below are those of the image.
    Sizes {
        /// The parameter that says so.
        key: &'static str,
        /// The size.
        size: Vec<i64>,
    },
    /// The image gets a size that depends on it.
    Regrids,
}

impl Effect {
    /// [`Effect::Moves`] where the image keeps its size.
    pub(crate) fn keeping(size: bool) -> Self {
        if size { Effect::Moves } else { Effect::Regrids }
    }

    /// The size of `key` where it holds one, [`Effect::Moves`] where it is empty.
    pub(crate) fn sizing(key: &'static str, size: &[i64]) -> Self {
        if size.is_empty() { Effect::Moves } else { Effect::Sizes { key, size: size.to_vec() } }
    }
}
