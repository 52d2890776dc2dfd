//! Gradients in groups, for the all-reduce: [`Buckets`].

use std::sync::Arc;

/// The usual size of a bucket, 25 MiB: large enough for the bandwidth of the network, small enough
/// that the first is reduced while backward computes the rest.
pub const BUCKET_BYTES: usize = 25 << 20;

/// Which parameters are reduced together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    buckets: Vec<Bucket>,
    /// Of each parameter: its bucket, and where in it its values begin.
    places: Vec<(usize, usize)>,
    /// Number of values of each parameter.
    lengths: Vec<usize>,
}

/// Parameters whose gradients are reduced together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The parameters, in the order of their values.
    pub parameters: Vec<usize>,
    /// Number of values.
    pub len: usize,
}

impl Buckets {
    /// Buckets of at most `bytes` bytes of f32 (a larger parameter has its own) for parameters with
    /// these numbers of values, in the order in which backward usually yields their gradients: the
    /// reverse of `lengths`.
    pub fn new(lengths: &[usize], bytes: usize) -> Self {
        let order: Vec<usize> = (0..lengths.len()).rev().collect();
        Buckets::in_order(lengths, &order, bytes)
    }

    /// Buckets in another order, such as that of the gradients of a first step. Parameters that
    /// `order` leaves out follow at the end; what it repeats, or what does not exist, is ignored.
    pub fn in_order(lengths: &[usize], order: &[usize], bytes: usize) -> Self {
        let mut places = vec![None; lengths.len()];
        let mut buckets: Vec<Bucket> = Vec::new();
        for parameter in order.iter().copied().chain((0..lengths.len()).rev()) {
            if !matches!(places.get(parameter), Some(None)) {
                continue;
            }
            let length = lengths[parameter];
            let fits = |bucket: &Bucket| (bucket.len + length).saturating_mul(size_of::<f32>()) <= bytes;
            if !buckets.last().is_some_and(fits) {
                buckets.push(Bucket::default());
            }
            let number = buckets.len() - 1;
            let bucket = &mut buckets[number];
            places[parameter] = Some((number, bucket.len));
            bucket.parameters.push(parameter);
            bucket.len += length;
        }
        Buckets { buckets, places: places.into_iter().flatten().collect(), lengths: lengths.to_vec() }
    }

    /// The buckets, in the order in which they are filled.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The values of a bucket, from those of its parameters. A parameter without a gradient has
    /// none, and counts as zeros.
    ///
    /// # Errors
    /// Where a parameter has another number of values.
    pub fn flatten<'a>(
        &self,
        bucket: usize,
        gradient: impl Fn(usize) -> Option<&'a [f32]>,
    ) -> Result<Vec<f32>, FillingError> {
        let mut values = vec![0.0; self.buckets[bucket].len];
        for parameter in &self.buckets[bucket].parameters {
            if let Some(gradient) = gradient(*parameter) {
                self.place(&mut values, *parameter, gradient)?;
            }
        }
        Ok(values)
    }

    /// The parameters of a bucket and their values in it.
    pub fn unflatten<'a>(&'a self, bucket: usize, values: &'a [f32]) -> impl Iterator<Item = (usize, &'a [f32])> {
        self.buckets[bucket].parameters.iter().map(move |parameter| {
            let start = self.places[*parameter].1;
            (*parameter, &values[start..start + self.lengths[*parameter]])
        })
    }

    /// Begins a step.
    pub fn fill(self: Arc<Self>) -> Filling {
        let missing = self.buckets.iter().map(|bucket| bucket.parameters.len()).collect();
        let values = self.buckets.iter().map(|_| Vec::new()).collect();
        Filling { buckets: Arc::clone(&self), values, missing, arrived: vec![false; self.lengths.len()], next: 0 }
    }

    fn place(&self, values: &mut [f32], parameter: usize, gradient: &[f32]) -> Result<(), FillingError> {
        let (start, expected) = (self.places[parameter].1, self.lengths[parameter]);
        if gradient.len() != expected {
            return Err(FillingError::Length { parameter, got: gradient.len(), expected });
        }
        values[start..start + expected].copy_from_slice(gradient);
        Ok(())
    }
}

/// The gradients of one step, as they arrive. Buckets are released in their order, because all ranks
/// must reduce them in the same order.
#[derive(Debug)]
pub struct Filling {
    buckets: Arc<Buckets>,
    values: Vec<Vec<f32>>,
    missing: Vec<usize>,
    arrived: Vec<bool>,
    next: usize,
}

/// Why a gradient does not belong in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillingError {
    /// No such parameter.
    #[error("there is no parameter {parameter}, only {count}")]
    Unknown {
        /// The parameter.
        parameter: usize,
        /// Number of parameters.
        count: usize,
    },
    /// It came before.
    #[error("the gradient of parameter {parameter} arrived twice in a step")]
    Twice {
        /// The parameter.
        parameter: usize,
    },
    /// It has another number of values.
    #[error("the gradient of parameter {parameter} has {got} values instead of {expected}")]
    Length {
        /// The parameter.
        parameter: usize,
        /// Its number of values.
        got: usize,
        /// Those of the parameter.
        expected: usize,
    },
}

impl Filling {
    /// Takes the gradient of a parameter, and gives the buckets that can be reduced now: their
    /// numbers and values.
    ///
    /// # Errors
    /// Where there is no such parameter, or its gradient came before or has another length.
    pub fn arrive(&mut self, parameter: usize, gradient: &[f32]) -> Result<Vec<(usize, Vec<f32>)>, FillingError> {
        match self.arrived.get(parameter) {
            None => return Err(FillingError::Unknown { parameter, count: self.arrived.len() }),
            Some(true) => return Err(FillingError::Twice { parameter }),
            Some(false) => {}
        }
        let bucket = self.buckets.places[parameter].0;
        self.values[bucket].resize(self.buckets.buckets[bucket].len, 0.0);
        self.buckets.place(&mut self.values[bucket], parameter, gradient)?;
        self.arrived[parameter] = true;
        self.missing[bucket] -= 1;
        let ready = self.missing[self.next..].iter().take_while(|missing| **missing == 0).count();
        Ok(self.release(ready))
    }

    /// Whether the gradient of a parameter came.
    pub fn has(&self, parameter: usize) -> bool {
        self.arrived.get(parameter).copied().unwrap_or_default()
    }

    /// The buckets that were not released. Gradients that did not arrive are zeros.
    pub fn rest(mut self) -> Vec<(usize, Vec<f32>)> {
        self.release(self.missing.len() - self.next)
    }

    fn release(&mut self, count: usize) -> Vec<(usize, Vec<f32>)> {
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        numbers
            .map(|number| {
                let mut values = std::mem::take(&mut self.values[number]);
                values.resize(self.buckets.buckets[number].len, 0.0);
                (number, values)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_fill_from_the_last_parameter() {
        let buckets = Buckets::new(&[3, 4, 100, 1, 2], 5 * 4);
        let parameters: Vec<&[usize]> = buckets.buckets().iter().map(|bucket| bucket.parameters.as_slice()).collect();
        assert_eq!(parameters, [&[4, 3][..], &[2], &[1], &[0]]);
        let usual = Buckets::new(&[1; 3], BUCKET_BYTES);
        assert_eq!(usual.buckets(), [Bucket { parameters: vec![2, 1, 0], len: 3 }]);
        assert!(Buckets::new(&[], BUCKET_BYTES).buckets().is_empty());
        let ordered = Buckets::in_order(&[1; 4], &[1, 1, 9, 0], 8);
        assert_eq!(ordered.buckets()[0].parameters, [1, 0]);
        assert_eq!(ordered.buckets()[1].parameters, [3, 2]);
    }

    #[test]
    fn gradients_that_do_not_belong_are_refused() {
        let buckets = Arc::new(Buckets::new(&[2, 1], 4));
        let mut filling = Arc::clone(&buckets).fill();
        assert_eq!(filling.arrive(0, &[1.0, 2.0]), Ok(vec![]), "bucket 0, of parameter 1, goes first");
        assert_eq!(filling.arrive(0, &[1.0, 2.0]), Err(FillingError::Twice { parameter: 0 }));
        assert_eq!(filling.arrive(1, &[]), Err(FillingError::Length { parameter: 1, got: 0, expected: 1 }));
        assert_eq!(filling.arrive(2, &[]), Err(FillingError::Unknown { parameter: 2, count: 2 }));
        assert_eq!(filling.arrive(1, &[3.0]), Ok(vec![(0, vec![3.0]), (1, vec![1.0, 2.0])]));
        assert!(filling.rest().is_empty());
        assert_eq!(buckets.fill().rest(), [(0, vec![0.0]), (1, vec![0.0; 2])]);
    }

    proptest! {
        /// Whatever the order of arrival, each parameter is in one bucket, buckets come in order, and
        /// what is taken out is what was put in.
        #[test]
        fn every_gradient_returns(
            lengths in prop::collection::vec(0_usize..40, 0..20),
            limit in 1_usize..400,
            turns in prop::collection::vec(any::<prop::sample::Index>(), 20),
            arriving in 0_usize..=20,
        ) {
            let buckets = Arc::new(Buckets::new(&lengths, limit));
            for bucket in buckets.buckets() {
                prop_assert!(bucket.len * 4 <= limit || bucket.parameters.iter().filter(|p| lengths[**p] > 0).count() == 1);
                prop_assert_eq!(bucket.len, bucket.parameters.iter().map(|p| lengths[*p]).sum::<usize>());
            }
            let gradients: Vec<Vec<f32>> =
                lengths.iter().enumerate().map(|(p, n)| (0..*n).map(|i| (p * 100 + i + 1) as f32).collect()).collect();
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            for (i, turn) in turns.iter().enumerate().take(lengths.len()) {
                order.swap(i, turn.index(lengths.len()));
            }
            order.truncate(arriving);
            let mut filling = Arc::clone(&buckets).fill();
            let mut released = Vec::new();
            for parameter in &order {
                released.extend(filling.arrive(*parameter, &gradients[*parameter]).expect("it belongs"));
            }
            released.extend(filling.rest());
            let numbers: Vec<usize> = released.iter().map(|(number, _)| *number).collect();
            prop_assert_eq!(numbers, (0..buckets.buckets().len()).collect::<Vec<_>>());
            let mut seen = vec![0; lengths.len()];
            for (number, values) in &released {
                let there = |p: usize| order.contains(&p).then(|| gradients[p].as_slice());
                prop_assert_eq!(values, &buckets.flatten(*number, there).expect("they fit"));
                for (parameter, part) in buckets.unflatten(*number, values) {
                    seen[parameter] += 1;
                    let zeros = vec![0.0; lengths[parameter]];
                    prop_assert_eq!(part, there(parameter).unwrap_or(&zeros));
                }
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }
}
