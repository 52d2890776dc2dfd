//! Steps that apply a random choice of other steps, or all of them in random order.
//!
//! Each is a random step as a whole: caches end before it, validation and prediction omit it. The
//! inverse needs no record of the choice, because an image records the operations themselves.

/// Implements [`Transform`](crate::Transform) for a type with `steps`, `turns(&self)`,
/// `order(&self, &Draw)`, `check_parameters(&self)` and `parameters(&self)`, its other parameters as
/// JSON.
macro_rules! transform_of_steps {
    ($type:ident) => {
        impl $type {
            /// Applies the steps with these indices, one after the other: what the transform does with
            /// a draw whose result is `order`.
            ///
            /// # Errors
            /// The error of the failed step, or that there is no such step.
            pub fn apply_in_order(
                &self,
                sample: $crate::Sample,
                order: &[usize],
                draw: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
                self.steps.apply(sample, order, draw, &|step, sample, draw| step.apply(sample, draw))
            }
        }

        impl $crate::Transform for $type {
            fn name(&self) -> &'static str {
                stringify!($type)
            }

            fn is_random(&self) -> bool {
                true
            }

            fn is_lazy(&self) -> bool {
                self.steps.are_lazy()
            }

            fn reads_boxes(&self, key: &str) -> bool {
                self.steps.iter().all(|step| step.reads_boxes(key))
            }

            fn other_keys(&self) -> Vec<&str> {
                self.steps.iter().flat_map(|step| step.other_keys()).collect()
            }

            fn maps_labels(&self) -> bool {
                self.steps.iter().any(|step| step.maps_labels())
            }

            fn through_host(&self) -> bool {
                self.steps.iter().any(|step| step.through_host())
            }

            fn mixes_cases(&self) -> bool {
                self.steps.iter().any(|step| step.mixes_cases())
            }

            fn effect(&self) -> $crate::Effect {
                self.steps.effect(self.turns())
            }

            fn apply(
                &self,
                sample: $crate::Sample,
                draw: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
                self.apply_in_order(sample, &self.order(draw), draw)
            }

            fn apply_to_batch(
                &self,
                sample: $crate::Sample,
                entries: usize,
                draw: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
                let apply = |step: &dyn $crate::Transform, sample, draw: &_| step.apply_to_batch(sample, entries, draw);
                self.steps.apply(sample, &self.order(draw), draw, &apply)
            }

            fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), hearth_registry::Fault> {
                self.check_parameters()?;
                self.steps.check(known, self.turns())
            }

            fn place(&mut self, device: Option<&burn::tensor::Device>) {
                self.steps.place(device);
            }

            fn describe(&self) -> serde_json::Value {
                let mut described = serde_json::Map::new();
                described.insert("name".to_owned(), stringify!($type).into());
                described.insert("transforms".to_owned(), self.steps.iter().map(|step| step.describe()).collect());
                described.extend(self.parameters());
                described.into()
            }
        }
    };
}

mod inner_steps;
mod one_of;
mod random_order;
mod some_of;
mod weights;

pub use one_of::OneOf;
pub use random_order::RandomOrder;
pub use some_of::SomeOf;
