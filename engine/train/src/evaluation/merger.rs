//! [`Merger`]: merges predictions by a handler, without a pass over cases.

use std::fmt;

use burn::tensor::Tensor;
use hearth_engine::{
    BoxError, Combine, Engine, Event, Handler, Host, HostError, HostTensor, Level, NamesOf, RegisterError, RunError,
    State, Workflow, not_offered, trace,
};

use crate::batch::tensors::Tensors;

/// The reason why predictions were not merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The handler failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The handler merged nothing.
    #[error(
        "`{handler}` merged the predictions {known} into no `pred` at forward_completed; it must combine or put one"
    )]
    Missing {
        /// The handler's name.
        handler: String,
        /// The existing tensors.
        known: String,
    },
}

/// Merges the predictions of several networks by a handler, as an
/// [`EnsembleEvaluator`](crate::EnsembleEvaluator) does, where there are no cases to measure: for
/// an image, a window of it, or a batch of patches.
///
/// Each merging is an epoch of one iteration. At `forward_completed` there are `image`, `pred_0`,
/// `pred_1`, ..., and the handler makes `pred` from them.
pub struct Merger {
    engine: Engine,
    handler: String,
}

impl fmt::Debug for Merger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merger").field("engine", &self.engine).finish()
    }
}

impl Merger {
    /// The keys of `count` predictions: `pred_0`, `pred_1`, ...
    pub fn keys(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("pred_{index}")).collect()
    }

    /// Makes a merger with this handler, whose engine is called `ensemble`.
    ///
    /// # Errors
    /// When the handler listens to an event that does not exist.
    pub fn new(handler: Box<dyn Handler>) -> Result<Self, RegisterError> {
        let (mut engine, name) = (Engine::new("ensemble"), handler.name().to_owned());
        engine.add_boxed(handler)?;
        Ok(Self { engine, handler: name })
    }

    /// Merges the predictions for an image, `[B, C, X, Y, Z]` each. Handlers see two spatial axes
    /// where `spatial_dims` is 2.
    ///
    /// # Errors
    /// When the handler fails, or puts no `pred`.
    pub fn merge(
        &mut self,
        image: Tensor<5>,
        members: Vec<Tensor<5>>,
        spatial_dims: usize,
    ) -> Result<Tensor<5>, MergeError> {
        let mut tensors = Tensors::new(&image.device(), spatial_dims);
        tensors.insert("image", image);
        for (key, member) in Self::keys(members.len()).iter().zip(members) {
            tensors.insert(key, member);
        }
        let mut round = Round { tensors, fetched: false };
        let epoch = self.engine.state().epoch + 1;
        self.engine.run_epoch(&mut round, epoch)?;
        let pred = round.tensors.get("pred").cloned();
        pred.ok_or_else(|| MergeError::Missing { handler: self.handler.clone(), known: round.tensors.names() })
    }
}

/// The workflow of one merging, driven by the engine.
struct Round {
    tensors: Tensors,
    fetched: bool,
}

impl Host for Round {
    fn names(&self, of: NamesOf) -> Vec<String> {
        match of {
            NamesOf::Tensors => self.tensors.list(),
            _ => Vec::new(),
        }
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.tensors.read(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        self.tensors.put(name, &tensor)
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        self.tensors.combine(inputs, how, output)
    }

    fn log(&mut self, level: Level, message: &str) {
        trace(level, message);
    }

    not_offered!(requests, output, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run);
}

impl Workflow for Round {
    fn restart(&mut self, _state: &State, _skip: u64) -> Result<Option<u64>, BoxError> {
        Ok(Some(1))
    }

    fn fetch(&mut self, _state: &State) -> Result<bool, BoxError> {
        Ok(!std::mem::replace(&mut self.fetched, true))
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        Ok(engine.fire(Event::ForwardCompleted, self)?)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use hearth_engine::{Context, HandlerError, When};

    use super::*;

    /// A handler that merges by the mean, or does nothing.
    struct Mean(bool);

    impl Handler for Mean {
        fn name(&self) -> &str {
            "mean"
        }

        fn subscriptions(&self) -> Vec<When> {
            vec![Event::ForwardCompleted.into()]
        }

        fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
            if self.0 {
                cx.host.combine(&["pred_0", "pred_1"], &Combine::Mean { weights: None }, "pred")?;
            }
            Ok(())
        }
    }

    fn filled(value: f32, channels: usize) -> Tensor<5> {
        Tensor::full([1, channels, 2, 2, 1], value, &Device::flex())
    }

    #[test]
    fn a_handler_merges_again_and_again() {
        let mut merger = Merger::new(Box::new(Mean(true))).expect("a sound handler");
        for value in [1.0, 5.0] {
            let members = vec![filled(value, 1), filled(value + 1.0, 1)];
            let merged = merger.merge(filled(0.0, 1), members, 2).expect("merged");
            assert_eq!(merged.into_data().iter::<f32>().collect::<Vec<_>>(), [value + 0.5; 4]);
        }
        assert_eq!(merger.engine.state().epoch, 2);
    }

    #[test]
    fn what_is_missing_or_unequal_is_named() {
        let mut idle = Merger::new(Box::new(Mean(false))).expect("a sound handler");
        let said = idle.merge(filled(0.0, 1), vec![filled(1.0, 1)], 3).expect_err("nothing merged").to_string();
        assert!(said.contains("`mean` merged the predictions image, pred_0 into no `pred`"), "{said}");
        let mut merger = Merger::new(Box::new(Mean(true))).expect("a sound handler");
        let said = merger.merge(filled(0.0, 1), vec![filled(1.0, 1), filled(1.0, 2)], 3).expect_err("unequal");
        assert!(said.to_string().contains("must have the same"), "{said}");
    }
}
