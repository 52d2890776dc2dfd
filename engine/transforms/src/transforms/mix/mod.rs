//! Transforms that combine the cases of a batch, or cut boxes out of all of them.

/// Implements [`Transform`](crate::Transform) for a type with `keys`, `batch_size`, `alpha`,
/// `allow_missing_keys`, `all_keys(&self)`, `check_parameters(&self, known)` and
/// `mix(&self, Image, &Mixing)`; `other_keys` names the function that returns the keys outside of
/// `keys`.
macro_rules! transform_of_batches {
    ($type:ident $(, other_keys: $others:ident)?) => {
        impl $crate::Transform for $type {
            fn name(&self) -> &'static str {
                stringify!($type)
            }

            fn is_random(&self) -> bool {
                true
            }

            fn mixes_cases(&self) -> bool {
                true
            }

            $(
                fn other_keys(&self) -> Vec<&str> {
                    self.$others()
                }
            )?

            fn effect(&self) -> $crate::Effect {
                $crate::Effect::Values
            }

            fn apply(
                &self,
                _: $crate::Sample,
                _: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
                Err(hearth_image::TransformError::new("a single case cannot be mixed with others")
                    .expected("a batch")
                    .advice("add `batch = true` to the step, in the training chain"))
            }

            fn apply_to_batch(
                &self,
                mut sample: $crate::Sample,
                entries: usize,
                draw: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
                mixing::check_size(self.batch_size, entries)?;
                let keys = self.all_keys();
                let keys = keys.of(&sample, self.allow_missing_keys);
                let Some((_, first)) = keys.first() else { return Ok(vec![sample]) };
                let mixing = Mixing::draw(draw, self.alpha, entries, sample.image(first)?.shape());
                for (_, key) in keys {
                    sample.update(key, |image| self.mix(image, &mixing))?;
                }
                Ok(vec![sample])
            }

            fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), hearth_registry::Fault> {
                self.keys.check(known)?;
                mixing::check(self.batch_size, self.alpha)?;
                self.check_parameters(known)
            }

            fn describe(&self) -> serde_json::Value {
                $crate::transform::describe(self.name(), self)
            }
        }
    };
}

mod cut_mix;
mod cut_out;
mod mix_up;
mod mixing;

pub use cut_mix::CutMix;
pub use cut_out::CutOut;
pub use mix_up::MixUp;
pub use mixing::Mixing;
