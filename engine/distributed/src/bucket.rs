//! Groups of gradients for the all-reduce: [`Buckets`].

use std::ops::Range;
use std::sync::Arc;

/// The usual size of a bucket, 25 MiB: large enough for the bandwidth of the network, small enough
/// that the first is reduced while the backward pass computes the rest.
pub const BUCKET_BYTES: usize = 25 << 20;

/// The groups of parameters whose gradients are reduced together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    buckets: Vec<Bucket>,
    /// For each parameter: its bucket, and the offset of its values in the bucket.
    places: Vec<(usize, usize)>,
    /// The number of values of each parameter.
    lengths: Vec<usize>,
}

/// Parameters whose gradients are reduced together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The parameters, in the order of their values.
    pub parameters: Vec<usize>,
    /// The number of values.
    pub len: usize,
}

impl Buckets {
    /// Buckets of at most `bytes` bytes of f32 for parameters with these numbers of values; a
    /// larger parameter gets its own bucket. The order is that in which the backward pass usually
    /// yields gradients: the reverse of `lengths`.
    pub fn new(lengths: &[usize], bytes: usize) -> Self {
        let order: Vec<usize> = (0..lengths.len()).rev().collect();
        Buckets::in_order(lengths, &order, bytes)
    }

    /// Buckets in another order, such as that of the gradients of a first step. Parameters missing
    /// from `order` follow at the end; repeated and unknown indices are ignored.
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

    /// The values of a bucket, concatenated from the gradients that [`Filling`] released. A missing
    /// gradient counts as zeros.
    pub fn flatten<V: AsRef<[f32]>>(&self, bucket: usize, gradients: &[Option<V>]) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.buckets[bucket].len);
        for ((_, range), gradient) in self.ranges(bucket).zip(gradients) {
            match gradient {
                Some(gradient) => values.extend_from_slice(gradient.as_ref()),
                None => values.resize(range.end, 0.0),
            }
        }
        values
    }

    /// The parameters of a bucket and their values in it.
    pub fn unflatten<'a>(&'a self, bucket: usize, values: &'a [f32]) -> impl Iterator<Item = (usize, &'a [f32])> {
        self.ranges(bucket).map(|(parameter, range)| (parameter, &values[range]))
    }

    /// The parameters of a bucket and the ranges of their values in it.
    pub fn ranges(&self, bucket: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.buckets[bucket].parameters.iter().map(move |parameter| {
            let start = self.places[*parameter].1;
            (*parameter, start..start + self.lengths[*parameter])
        })
    }

    /// Begins a step.
    pub fn fill<V>(self: Arc<Self>) -> Filling<V> {
        let missing = self.buckets.iter().map(|bucket| bucket.parameters.len()).collect();
        let gradients = self.lengths.iter().map(|_| None).collect();
        Filling { buckets: Arc::clone(&self), gradients, missing, arrived: vec![false; self.lengths.len()], next: 0 }
    }
}

/// The gradients of one step, as they arrive: values, or handles of values on a device. Buckets are
/// released in their order, because all ranks must reduce them in the same order.
#[derive(Debug)]
pub struct Filling<V = Vec<f32>> {
    buckets: Arc<Buckets>,
    /// The gradient of each parameter, until its bucket is released.
    gradients: Vec<Option<V>>,
    missing: Vec<usize>,
    arrived: Vec<bool>,
    next: usize,
}

/// A bucket that can be reduced: its number, and the gradients of its parameters.
pub type Released<V> = (usize, Vec<Option<V>>);

/// The reason why a gradient is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillingError {
    /// There is no such parameter.
    #[error("there is no parameter {parameter}, only {count}")]
    Unknown {
        /// The parameter.
        parameter: usize,
        /// The number of parameters.
        count: usize,
    },
    /// The gradient arrived before.
    #[error("the gradient of parameter {parameter} arrived twice in a step")]
    Twice {
        /// The parameter.
        parameter: usize,
    },
    /// The gradient has the wrong number of values.
    #[error("the gradient of parameter {parameter} has {got} values instead of {expected}")]
    Length {
        /// The parameter.
        parameter: usize,
        /// The gradient's number of values.
        got: usize,
        /// The parameter's number of values.
        expected: usize,
    },
}

impl<V> Filling<V> {
    /// Adds the gradient of a parameter, with `count` values, and returns the buckets that can be
    /// reduced now.
    ///
    /// # Errors
    /// If there is no such parameter, or its gradient arrived before or has another length.
    pub fn arrive(&mut self, parameter: usize, count: usize, gradient: V) -> Result<Vec<Released<V>>, FillingError> {
        match self.arrived.get(parameter) {
            None => return Err(FillingError::Unknown { parameter, count: self.arrived.len() }),
            Some(true) => return Err(FillingError::Twice { parameter }),
            Some(false) => {}
        }
        let expected = self.buckets.lengths[parameter];
        if count != expected {
            return Err(FillingError::Length { parameter, got: count, expected });
        }
        self.gradients[parameter] = Some(gradient);
        self.arrived[parameter] = true;
        self.missing[self.buckets.places[parameter].0] -= 1;
        let ready = self.missing[self.next..].iter().take_while(|missing| **missing == 0).count();
        Ok(self.release(ready))
    }

    /// Whether the gradient of a parameter has arrived.
    pub fn has(&self, parameter: usize) -> bool {
        self.arrived.get(parameter).copied().unwrap_or_default()
    }

    /// The buckets that were not released. Missing gradients count as zeros.
    pub fn rest(mut self) -> Vec<Released<V>> {
        self.release(self.missing.len() - self.next)
    }

    fn release(&mut self, count: usize) -> Vec<Released<V>> {
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        let gradients = &mut self.gradients;
        let of = |bucket: &Bucket| bucket.parameters.iter().map(|parameter| gradients[*parameter].take()).collect();
        numbers.clone().zip(self.buckets.buckets[numbers].iter().map(of)).collect()
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
        let mut filling: Filling<[f32; 2]> = Arc::clone(&buckets).fill();
        assert_eq!(filling.arrive(0, 2, [1.0, 2.0]), Ok(vec![]), "bucket 0, of parameter 1, goes first");
        assert_eq!(filling.arrive(0, 2, [1.0, 2.0]), Err(FillingError::Twice { parameter: 0 }));
        assert_eq!(filling.arrive(1, 0, [0.0; 2]), Err(FillingError::Length { parameter: 1, got: 0, expected: 1 }));
        assert_eq!(filling.arrive(2, 0, [0.0; 2]), Err(FillingError::Unknown { parameter: 2, count: 2 }));
        let released = vec![(0, vec![Some([3.0, 0.0])]), (1, vec![Some([1.0, 2.0])])];
        assert_eq!(filling.arrive(1, 1, [3.0, 0.0]), Ok(released));
        assert!(filling.rest().is_empty());
        let none = Arc::clone(&buckets).fill::<Vec<f32>>().rest();
        assert_eq!(none, [(0, vec![None]), (1, vec![None])]);
        assert_eq!(none.iter().map(|(b, of)| buckets.flatten(*b, of)).collect::<Vec<_>>(), [vec![0.0], vec![0.0; 2]]);
    }

    proptest! {
        /// In any order of arrival, each parameter is in one bucket, buckets come in order, and the
        /// values taken out equal those put in.
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
                let own = gradients[*parameter].clone();
                released.extend(filling.arrive(*parameter, own.len(), own).expect("it belongs"));
            }
            released.extend(filling.rest());
            let numbers: Vec<usize> = released.iter().map(|(number, _)| *number).collect();
            prop_assert_eq!(numbers, (0..buckets.buckets().len()).collect::<Vec<_>>());
            let mut seen = vec![0; lengths.len()];
            for (number, of) in &released {
                let there = |p: usize| order.contains(&p).then(|| gradients[p].as_slice());
                let values = buckets.flatten(*number, of);
                prop_assert_eq!(values.len(), buckets.buckets()[*number].len);
                for (parameter, part) in buckets.unflatten(*number, &values) {
                    seen[parameter] += 1;
                    let zeros = vec![0.0; lengths[parameter]];
                    prop_assert_eq!(part, there(parameter).unwrap_or(&zeros));
                }
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }
}
