//! Further networks of a step of the user's own: [`Companion`].

use std::any::Any;

use burn::tensor::Device;
use hearth_engine::BoxError;
use hearth_nn::networks::Network;

use crate::batch::feed::Feed;
use crate::checkpoint::{Checkpoint, CheckpointError, Files, file_name_of};
use crate::training::trainer::{TrainerError, TrainerOptions};

/// What a step uses next to the network: a [`Learned`](crate::Learned), [`Averaged`](crate::Averaged)
/// or [`Fixed`](crate::Fixed) network, or a tuple of up to four of them. The trainer moves them to
/// its device, and saves and restores them with its checkpoints.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a further network of a step",
    note = "wrap a network: `Learned::new(\"critic\", network, optimizer)` to train it, `Fixed::new(\"teacher\", \
            network)` to use it unchanged, `Averaged::new(\"teacher\", 0.99)` for the mean of the trained network's \
            weights; a tuple holds several"
)]
pub trait Companion<N>: 'static {
    /// The form in which the step receives it.
    type InStep: InStep<N>;

    /// Prepares it for a trainer of `network` with these options.
    ///
    /// # Errors
    /// For an optimizer, decay or precision that cannot be used.
    #[doc(hidden)]
    fn place(self, network: &N, options: &TrainerOptions) -> Result<Self::InStep, TrainerError>;
}

/// The parts of a trainer that companions use at the end of an epoch.
#[doc(hidden)]
pub struct Around<'a> {
    pub(crate) feed: &'a Feed,
}

/// A companion during training.
#[doc(hidden)]
pub trait InStep<N>: Clone + Send + 'static {
    /// Its names, in the order of the tuple.
    fn names(&self) -> Vec<&str>;

    /// The companion's network of this name.
    fn find(&self, name: &str) -> Option<&dyn Any>;

    /// Keys random draws of the next forward passes (dropout).
    fn set_draw(&self, _seed: u64, _step: u64) {}

    /// Keeps the learning rate in proportion to that of a network that started with `first`.
    fn follow(&mut self, _learning_rate: f64, _first: f64) {}

    fn epoch_started(&mut self) {}

    /// Called after each step of the trained network's optimizer.
    fn stepped(&mut self, _network: &N) {}

    /// Takes the step of the remaining batches.
    fn epoch_completed(&mut self, _around: &Around<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn collect(&self, _files: &mut Files) -> Result<(), BoxError> {
        Ok(())
    }

    /// Reads it from a checkpoint; this one does not change.
    fn restored(&self, _checkpoint: &Checkpoint, _device: &Device) -> Result<Self, BoxError> {
        Ok(self.clone())
    }
}

/// The folder of a companion's files in a checkpoint.
fn folder(name: &str) -> String {
    format!("companions/{}/", file_name_of(name))
}

/// Adds the files of a companion.
pub(crate) fn insert(files: &mut Files, name: &str, own: Files) {
    let folder = folder(name);
    files.extend(own.into_iter().map(|(file, bytes)| (format!("{folder}{file}"), bytes)));
}

/// The part of a checkpoint that holds a companion.
pub(crate) fn part(checkpoint: &Checkpoint, name: &str) -> Result<Checkpoint, CheckpointError> {
    checkpoint.part(&folder(name)).ok_or_else(|| CheckpointError::Mismatch {
        path: checkpoint.path.clone(),
        part: "companions",
        why: format!("it holds no network `{name}`, which this run's step uses; resume it with the step that wrote it"),
    })
}

/// Fails where two companions would have the same files.
pub(crate) fn check_names<N>(companions: &impl InStep<N>) -> Result<(), TrainerError> {
    let names = companions.names();
    let taken = |index: usize| names[..index].iter().any(|other| folder(other) == folder(names[index]));
    match (0..names.len()).find(|index| names[*index].trim().is_empty() || taken(*index)) {
        Some(index) => Err(TrainerError::CompanionName { name: names[index].to_owned() }),
        None => Ok(()),
    }
}

impl<N: Network> Companion<N> for () {
    type InStep = ();

    fn place(self, _: &N, _: &TrainerOptions) -> Result<(), TrainerError> {
        Ok(())
    }
}

impl<N> InStep<N> for () {
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<&dyn Any> {
        None
    }
}

macro_rules! tuples {
    ($($part:ident)+) => {
        impl<N: Network, $($part: Companion<N>),+> Companion<N> for ($($part,)+) {
            type InStep = ($($part::InStep,)+);

            #[allow(non_snake_case, reason = "names of type parameters are those of variables")]
            fn place(self, network: &N, options: &TrainerOptions) -> Result<Self::InStep, TrainerError> {
                let ($($part,)+) = self;
                Ok(($($part.place(network, options)?,)+))
            }
        }

        #[allow(non_snake_case, reason = "names of type parameters are those of variables")]
        impl<N, $($part: InStep<N>),+> InStep<N> for ($($part,)+) {
            fn names(&self) -> Vec<&str> {
                let ($($part,)+) = self;
                [$($part.names()),+].concat()
            }

            fn find(&self, name: &str) -> Option<&dyn Any> {
                let ($($part,)+) = self;
                None$(.or_else(|| $part.find(name)))+
            }

            fn set_draw(&self, seed: u64, step: u64) {
                let ($($part,)+) = self;
                $($part.set_draw(seed, step);)+
            }

            fn follow(&mut self, learning_rate: f64, first: f64) {
                let ($($part,)+) = self;
                $($part.follow(learning_rate, first);)+
            }

            fn epoch_started(&mut self) {
                let ($($part,)+) = self;
                $($part.epoch_started();)+
            }

            fn stepped(&mut self, network: &N) {
                let ($($part,)+) = self;
                $($part.stepped(network);)+
            }

            fn epoch_completed(&mut self, around: &Around<'_>) -> Result<(), BoxError> {
                let ($($part,)+) = self;
                $($part.epoch_completed(around)?;)+
                Ok(())
            }

            fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
                let ($($part,)+) = self;
                $($part.collect(files)?;)+
                Ok(())
            }

            fn restored(&self, checkpoint: &Checkpoint, device: &Device) -> Result<Self, BoxError> {
                let ($($part,)+) = self;
                Ok(($($part.restored(checkpoint, device)?,)+))
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
