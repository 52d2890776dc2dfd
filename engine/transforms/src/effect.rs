//! The effect of a transform on the images of its keys: [`Effect`].

/// The effect of a transform on the images of its keys, as far as it is known before the first
/// case.
///
/// Checks of a recipe use it: whether crops have a size that the network supports, and which steps
/// convert a label to the network's classes while it stays on the grid of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect: the transform checks images, or creates other values of a sample.
    Nothing,
    /// Values change; voxels keep their positions.
    Values,
    /// Voxels move; the image keeps its size, up to the order of its axes.
    Moves,
    /// The image gets a fixed size in voxels. Entries of 0 and below keep the image's own size.
    Sizes {
        /// Parameter that sets the size.
        key: &'static str,
        /// Size along the spatial axes; a single number applies to all axes.
        size: Vec<i64>,
    },
    /// The image gets a size that depends on the image.
    Regrids,
}

impl Effect {
    /// Returns [`Effect::Moves`] if the image keeps its size.
    pub(crate) fn keeping(size: bool) -> Self {
        if size { Effect::Moves } else { Effect::Regrids }
    }

    /// Returns the size in parameter `key`, or [`Effect::Moves`] if it is empty.
    pub(crate) fn sizing(key: &'static str, size: &[i64]) -> Self {
        if size.is_empty() { Effect::Moves } else { Effect::Sizes { key, size: size.to_vec() } }
    }
}
