//! The static properties of every network of this folder.

use super::ShapeError;
use crate::layers::{ConfigError, DropoutClock, in_space};

/// Name, channels, requirements on inputs, and the clock of the dropout layers.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub name: &'static str,
    pub spatial_dims: usize,
    /// Numbers of input and output channels.
    pub channels: [usize; 2],
    /// Divisor of each axis of an input.
    pub divisor: [usize; 3],
    /// Smallest length of each axis of an input.
    pub least: [usize; 3],
    /// The only valid size, for networks with layers of a fixed number of features.
    pub exact: Option<[usize; 3]>,
    pub clock: DropoutClock,
}

impl Facts {
    /// The facts of a network for 2-D or 3-D inputs of any size.
    pub fn new(name: &'static str, spatial_dims: usize, channels: [usize; 2]) -> Result<Self, ConfigError> {
        if ![2, 3].contains(&spatial_dims) {
            return Err(ConfigError::value("spatial_dims", spatial_dims, "expected 2 or 3"));
        }
        if channels.contains(&0) {
            return Err(ConfigError::value("channels in and out", channels, "expected at least 1"));
        }
        let clock = DropoutClock::default();
        Ok(Facts { name, spatial_dims, channels, divisor: [1; 3], least: [1; 3], exact: None, clock })
    }

    /// Requires that every axis in use is divisible by `number`.
    #[must_use]
    pub fn divisible_by(self, number: usize) -> Self {
        Facts { divisor: in_space(self.spatial_dims, number), ..self }
    }

    /// Requires that every axis in use has a length of at least `number`.
    #[must_use]
    pub fn at_least(self, number: usize) -> Self {
        Facts { least: in_space(self.spatial_dims, number), ..self }
    }

    /// Checks an input's shape.
    pub fn check(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let fail = |reason: String| Err(ShapeError { network: self.name, shape, reason });
        let [_, channels, x, y, z] = shape;
        if channels != self.channels[0] {
            return fail(format!("it was built with in_channels = {}", self.channels[0]));
        }
        if self.spatial_dims == 2 && z != 1 {
            return fail("it is 2-D, so the last axis must be 1".to_owned());
        }
        if let Some(exact) = self.exact.filter(|exact| *exact != [x, y, z]) {
            return fail(format!("it was built for x, y, z of {exact:?}"));
        }
        let fits: Vec<usize> = [x, y, z]
            .iter()
            .zip(self.divisor.iter().zip(self.least))
            .map(|(n, (divisor, least))| (*n).max(least).next_multiple_of((*divisor).max(1)))
            .collect();
        if fits != [x, y, z] {
            return fail(format!(
                "x, y, z must be divisible by {:?} and at least {:?}; pad or crop to {fits:?}",
                self.divisor, self.least
            ));
        }
        Ok(())
    }
}

/// Implements the methods of a `Network` that `facts` provides.
macro_rules! by_facts {
    () => {
        fn name(&self) -> &'static str {
            self.facts.name
        }

        fn spatial_dims(&self) -> usize {
            self.facts.spatial_dims
        }

        fn channels(&self) -> [usize; 2] {
            self.facts.channels
        }

        fn check_input(&self, shape: [usize; 5]) -> Result<(), $crate::networks::ShapeError> {
            self.facts.check(shape)
        }

        fn set_draw(&self, seed: u64, step: u64) {
            self.facts.clock.set(seed, step);
        }
    };
}

pub(crate) use by_facts;
