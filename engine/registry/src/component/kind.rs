//! [`ComponentKind`]: what a component is, and the operations of each kind.

use std::fmt;

/// The kind of a component, with its operations and the [texts](super::texts) of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentKind {
    /// A step of `transforms` or `post`: an image `[C, X, Y, Z]` to an image on the same grid (`run`).
    Transform = 0,
    /// A metric: prediction and label of an item, `[C, X, Y, Z]` each, to a row of numbers `[N]` (`run`).
    Metric = 1,
    /// A reader: a path to an image `[C, X, Y, Z]` (`run`).
    Reader = 2,
    /// A step of `transforms` over several keys, which may draw and change the grid.
    ///
    /// `abilities`: [`Abilities`](super::texts::Abilities). `apply`: the images of its keys, with
    /// [`MapCall`](super::texts::MapCall), to as many images and a [`MapAnswer`](super::texts::MapAnswer).
    /// `invert`: one image with an [`Inversion`](super::texts::Inversion), to the image on the grid before.
    MapTransform = 3,
    /// A loss. `loss`: prediction and label `[N, C, X, Y, Z]` to the gradient of the prediction, and a
    /// [`LossAnswer`](super::texts::LossAnswer).
    Loss = 4,
    /// A schedule of the learning rate. `rate`: [`RateCall`](super::texts::RateCall) to
    /// [`RateAnswer`](super::texts::RateAnswer).
    Schedule = 5,
    /// An inferer. `infer`: an image `[N, C, X, Y, Z]`, with the network, to the output on its grid.
    Inferer = 6,
    /// The order of an epoch's cases. `order`: [`OrderCall`](super::texts::OrderCall) to
    /// [`OrderAnswer`](super::texts::OrderAnswer).
    Sampler = 7,
    /// A layout of data sets. `cases`: [`LayoutCall`](super::texts::LayoutCall) to
    /// [`LayoutAnswer`](super::texts::LayoutAnswer).
    Layout = 8,
    /// A writer of images. `abilities`: its endings. `write`: an image with a
    /// [`WriteCall`](super::texts::WriteCall), to a [`WriteAnswer`](super::texts::WriteAnswer).
    Writer = 9,
}

impl ComponentKind {
    /// All kinds.
    pub const ALL: [ComponentKind; 10] = [
        ComponentKind::Transform,
        ComponentKind::Metric,
        ComponentKind::Reader,
        ComponentKind::MapTransform,
        ComponentKind::Loss,
        ComponentKind::Schedule,
        ComponentKind::Inferer,
        ComponentKind::Sampler,
        ComponentKind::Layout,
        ComponentKind::Writer,
    ];

    /// The kind's name, in the singular, as plugins list it.
    pub fn word(self) -> &'static str {
        match self {
            ComponentKind::Transform => "transform",
            ComponentKind::Metric => "metric",
            ComponentKind::Reader => "reader",
            ComponentKind::MapTransform => "map_transform",
            ComponentKind::Loss => "loss",
            ComponentKind::Schedule => "schedule",
            ComponentKind::Inferer => "inferer",
            ComponentKind::Sampler => "sampler",
            ComponentKind::Layout => "layout",
            ComponentKind::Writer => "writer",
        }
    }
}

impl fmt::Display for ComponentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
