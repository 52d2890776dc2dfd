//! Averages gradients over all ranks: [`Reducer`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, Tensor, TensorData};
use hearth_distributed::{AllReduce, Buckets, Filling, Order as SumOrder, Pending, Released, Wire};
use hearth_engine::BoxError;
use hearth_nn::networks::Network;
use hearth_nn::optim::{Gradients, SeeGradient, watch_gradients};
use serde::{Deserialize, Serialize};

use crate::ranks::Ranks;
use crate::training::bucket_sum::{Arrived, BucketSum, Summed};
use crate::training::reading::Reading;

/// Reduces the gradients of a step, in buckets. Where the backward pass is
/// [watched](Reducer::watch), each bucket is sent as soon as it is full, while the pass computes
/// the next one.
#[derive(Clone, Debug)]
pub(crate) struct Reducer {
    pub ranks: Ranks,
    /// The loss of this rank's batch, which is reduced with the gradients.
    pub loss: Option<f32>,
    /// The mean of the ranks' losses in the last step.
    pub mean_loss: Option<f64>,
    /// The parameters that have had a gradient so far, on any rank.
    order: Option<Arc<Order>>,
    /// The state of the current backward pass.
    flight: Arc<Mutex<Flight>>,
    /// The thread that reads the GPU's gradients of the current backward pass.
    reading: Arc<Mutex<Option<Reading>>>,
    steps: u64,
}

/// How the gradients of a backward pass are observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watching {
    /// The factor of the gradients, `[1]`: the loss was scaled by its inverse.
    pub factor: Option<Tensor<1>>,
    /// The sum of the gradients of earlier batches of the step, and the number of batches in the
    /// step.
    pub before: Option<(Gradients, u64)>,
    /// Whether a separate thread reads them: reading from a GPU waits until it has computed them.
    pub apart: bool,
}

/// The parameters in the order in which the backward pass of rank 0 yields their gradients, and
/// their buckets. The facts, which are no gradients, follow after them as if they were one more
/// gradient: the loss, the number of gradients of other parameters, and for each parameter whether
/// it has one. Where gradients stay on a GPU, the facts are sent separately.
#[derive(Debug)]
struct Order {
    parameters: Vec<Parameter>,
    places: BTreeMap<String, usize>,
    buckets: Arc<Buckets>,
    facts_apart: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parameter {
    path: String,
    length: usize,
}

/// The number of bytes from which gradients are divided into buckets: below it, the reduction takes
/// less time than watching the backward pass.
const WORTH: usize = 4 << 20;

/// The minimum number of buckets above that size: a single one would be full only at the end of the
/// pass.
const PARTS: usize = 8;

/// The number of facts before those of each parameter.
const FACTS: usize = 2;

impl Order {
    /// Makes the order from the parameters of each rank: those that only later ranks have come
    /// last.
    fn new(of_ranks: impl IntoIterator<Item = Parameter>, ranks: &Ranks) -> Arc<Self> {
        let (bucket_bytes, facts_apart) = (ranks.bucket_bytes, ranks.in_place.is_some());
        let (mut parameters, mut places) = (Vec::new(), BTreeMap::new());
        for parameter in of_ranks {
            if !places.contains_key(&parameter.path) {
                places.insert(parameter.path.clone(), parameters.len());
                parameters.push(parameter);
            }
        }
        let facts = (!facts_apart).then_some(FACTS + parameters.len());
        let lengths: Vec<usize> = parameters.iter().map(|of| of.length).chain(facts).collect();
        let order: Vec<usize> = (0..lengths.len()).collect();
        let all = lengths.iter().sum::<usize>() * size_of::<f32>();
        let bucket_bytes = if all < WORTH { bucket_bytes } else { bucket_bytes.min(all / PARTS) };
        let buckets = Arc::new(Buckets::in_order(&lengths, &order, bucket_bytes));
        Arc::new(Self { parameters, places, buckets, facts_apart })
    }
}

/// The gradients of one backward pass, and the buckets that are being reduced.
#[derive(Debug, Default)]
struct Flight {
    /// The order in which they came, where none is known yet.
    came: Vec<String>,
    filling: Option<(Arc<Order>, Filling<Arrived>)>,
    travelling: Vec<(usize, BucketSum)>,
    /// The first error, as the pass could not be stopped.
    fault: Option<String>,
}

impl Flight {
    fn arrive(&mut self, path: &str, gradient: Arrived, ranks: &Ranks, step: u64) -> Result<(), String> {
        let Some((order, filling)) = &mut self.filling else {
            self.came.push(path.to_owned());
            return Ok(());
        };
        // An unknown parameter is left to the end of the step, as in a pass that is not watched.
        let Some(place) = order.places.get(path) else { return Ok(()) };
        let arrived = filling.arrive(*place, gradient.count(), gradient);
        let (order, full) = (Arc::clone(order), arrived.map_err(|why| format!("{path}: {why}"))?);
        self.send(&order, full, ranks, step)
    }

    fn send(&mut self, order: &Order, buckets: Vec<Released<Arrived>>, ranks: &Ranks, step: u64) -> Result<(), String> {
        for bucket in buckets {
            let sum = BucketSum::start(&order.buckets, &bucket, ranks, &ranks.at(GRADIENTS, step))?;
            self.travelling.push((bucket.0, sum));
        }
        Ok(())
    }
}

/// The phase in which ranks wait for gradients.
const GRADIENTS: &str = "gradients";

impl Reducer {
    pub fn new(ranks: Ranks) -> Self {
        Self {
            ranks,
            loss: None,
            mean_loss: None,
            order: None,
            flight: Arc::default(),
            reading: Arc::default(),
            steps: 0,
        }
    }

    /// The network for one forward pass whose gradients are reduced during the backward pass;
    /// `None` where all of them are reduced together at its end.
    pub fn watch<N: Network>(&self, network: &N, how: &Watching) -> Option<N> {
        // The thread of an abandoned pass must end before the next flight starts.
        drop(self.reading().take());
        let mut flight = self.flight();
        *flight = Flight::default();
        if self.order.as_ref().is_some_and(|order| order.buckets.buckets().len() < 2) {
            return None;
        }
        flight.filling = self.order.as_ref().map(|order| (Arc::clone(order), Arc::clone(&order.buckets).fill()));
        let (shared, ranks, step) = (Arc::clone(&self.flight), self.ranks.clone(), self.steps);
        let arrive = move |path: &str, gradient: Tensor<1>| {
            let gradient = Arrived::new(path, gradient, &ranks);
            let mut flight = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(why) = gradient.and_then(|gradient| flight.arrive(path, gradient, &ranks, step)) {
                flight.fault.get_or_insert(why);
            }
        };
        let arrive: SeeGradient = if how.apart {
            match Reading::start(arrive) {
                Ok(reading) => {
                    let see = reading.see();
                    *self.reading() = Some(reading);
                    Arc::new(see)
                }
                Err(why) => {
                    tracing::warn!("gradients are reduced after the backward pass: no thread can be started: {why}");
                    return None;
                }
            }
        } else {
            Arc::new(arrive)
        };
        let Watching { factor, before, .. } = how.clone();
        if factor.is_none() && before.is_none() {
            return Some(watch_gradients(network, arrive));
        }
        // The same computation as in `Learner::backward` and `Learner::gather`.
        let whole = move |path: &str, gradient: Tensor<1>| {
            let own = match &factor {
                Some(factor) => gradient * factor.clone(),
                None => gradient,
            };
            arrive(
                path,
                match &before {
                    Some((sum, batches)) => {
                        let sum = sum.get(path).map_or_else(|| own.clone(), |sum| sum.clone() + own.clone());
                        sum * (1.0 / *batches as f64)
                    }
                    None => own,
                },
            );
        };
        Some(watch_gradients(network, Arc::new(whole)))
    }

    fn reading(&self) -> MutexGuard<'_, Option<Reading>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mean of each gradient over the ranks, on the gradient's device. It also sets the mean of
    /// the losses.
    pub fn mean(&mut self, gradients: &Gradients) -> Result<Gradients, BoxError> {
        let reading = self.reading().take();
        reading.map_or(Ok(()), Reading::end)?;
        let mut flight = std::mem::take(&mut *self.flight());
        if let Some(fault) = flight.fault.take() {
            return Err(format!("a gradient cannot be sent: {fault}").into());
        }
        let order = match &self.order {
            Some(order) => Arc::clone(order),
            None => {
                let order = self.agree(gradients, &flight.came)?;
                Arc::clone(self.order.insert(order))
            }
        };
        let filling = flight.filling.take().filter(|(of, _)| Arc::ptr_eq(of, &order));
        flight.filling = Some(filling.unwrap_or_else(|| (Arc::clone(&order), Arc::clone(&order.buckets).fill())));
        let mut facts = vec![self.loss.take().unwrap_or(f32::NAN), 0.0];
        facts.resize(FACTS + order.parameters.len(), 0.0);
        let mut others = Vec::new();
        for (path, gradient) in gradients.iter() {
            let Some(place) = order.places.get(path) else {
                others.push((path, gradient));
                continue;
            };
            facts[FACTS + place] = 1.0;
            let came = flight.filling.as_ref().is_some_and(|(_, filling)| filling.has(*place));
            if !came {
                let gradient = Arrived::new(path, gradient.clone(), &self.ranks)?;
                flight.arrive(path, gradient, &self.ranks, self.steps)?;
            }
        }
        facts[1] = others.len() as f32;
        let mut apart = None;
        if let Some((_, mut filling)) = flight.filling.take() {
            if order.facts_apart {
                flight.send(&order, filling.rest(), &self.ranks, self.steps)?;
                apart = Some(self.send_facts(facts));
            } else {
                let full = filling.arrive(order.parameters.len(), facts.len(), Arrived::Values(facts))?;
                flight.send(&order, full, &self.ranks, self.steps)?;
                flight.send(&order, filling.rest(), &self.ranks, self.steps)?;
            }
        }
        let (mut reduced, mut facts) = self.land(&order, flight.travelling, gradients)?;
        if let Some(apart) = apart {
            let share = 1.0 / self.ranks.world() as f32;
            facts = apart.wait()?.into_iter().map(|sum| sum * share).collect();
        }
        self.mean_loss = facts.first().map(|loss| f64::from(*loss));
        // Where no rank has a gradient, the parameter is not updated.
        for (parameter, there) in order.parameters.iter().zip(&facts[FACTS..]) {
            if *there == 0.0 {
                reduced.remove(&parameter.path);
            }
        }
        if facts[1] > 0.0 {
            self.late(&order, gradients, &mut reduced)?;
        }
        self.steps += 1;
        Ok(Gradients::from_map(reduced))
    }

    /// Sends the facts: they are few, and in host memory.
    fn send_facts(&self, facts: Vec<f32>) -> Pending<Vec<f32>> {
        let how = AllReduce { wire: Wire::F32, order: SumOrder::Rank };
        self.ranks.communicator().start_all_reduce(facts, how, &self.ranks.at(GRADIENTS, self.steps))
    }

    /// Agrees on the order of rank 0, followed by the other ranks' further parameters.
    fn agree(&self, gradients: &Gradients, came: &[String]) -> Result<Arc<Order>, BoxError> {
        let length = |path: &str| gradients.get(path).map_or(0, |gradient| gradient.dims()[0]);
        let others = gradients.iter().map(|(path, _)| path).rev().filter(|path| !came.iter().any(|c| c == path));
        let own: Vec<Parameter> = came
            .iter()
            .map(String::as_str)
            .chain(others)
            .map(|path| Parameter { path: path.to_owned(), length: length(path) })
            .collect();
        let all: Vec<Vec<Parameter>> = self.ranks.gather(&own, "the order of gradients", self.steps)?;
        Ok(Order::new(all.into_iter().flatten(), &self.ranks))
    }

    /// Waits for buckets; returns the means by path, and those of the facts.
    fn land(
        &self,
        order: &Order,
        travelling: Vec<(usize, BucketSum)>,
        gradients: &Gradients,
    ) -> Result<(BTreeMap<String, Tensor<1>>, Vec<f32>), BoxError> {
        let share = 1.0 / self.ranks.world() as f32;
        // A parameter without a gradient on this rank has one on another, on the same kind of
        // device.
        let device: Option<Device> = gradients.iter().next().map(|(_, gradient)| gradient.device());
        let (mut reduced, mut facts) = (BTreeMap::new(), Vec::new());
        for (number, sum) in travelling {
            let values = match sum.wait()? {
                Summed::Values(values) => values,
                Summed::OnCard(sum) => {
                    let mean = sum * share;
                    for (place, range) in order.buckets.ranges(number) {
                        if let Some(parameter) = order.parameters.get(place) {
                            reduced.insert(parameter.path.clone(), mean.clone().slice([range]));
                        }
                    }
                    continue;
                }
            };
            for (place, values) in order.buckets.unflatten(number, &values) {
                let mean: Vec<f32> = values.iter().map(|sum| sum * share).collect();
                let Some(parameter) = order.parameters.get(place) else {
                    facts = mean;
                    continue;
                };
                let of = gradients.get(&parameter.path).map(Tensor::device).or_else(|| device.clone());
                let mean = TensorData::new(mean, [parameter.length]);
                reduced.insert(parameter.path.clone(), Tensor::<1>::from_data(mean, &of.unwrap_or_default()));
            }
        }
        Ok((reduced, facts))
    }

    /// Reduces gradients of parameters that had none so far on any rank; their buckets are known
    /// from the next step on.
    fn late(
        &mut self,
        order: &Order,
        gradients: &Gradients,
        reduced: &mut BTreeMap<String, Tensor<1>>,
    ) -> Result<(), BoxError> {
        let known = |path: &str| order.places.contains_key(path);
        let new = gradients.iter().filter(|(path, _)| !known(path));
        let own: Vec<Parameter> =
            new.map(|(path, gradient)| Parameter { path: path.to_owned(), length: gradient.dims()[0] }).collect();
        let all: Vec<Vec<Parameter>> = self.ranks.gather(&own, "new gradients", self.steps)?;
        let late = Order::new(all.into_iter().flatten(), &self.ranks);
        let mut flight =
            Flight { filling: Some((Arc::clone(&late), Arc::clone(&late.buckets).fill())), ..Flight::default() };
        for parameter in &own {
            if let Some(gradient) = gradients.get(&parameter.path) {
                let gradient = Arrived::new(&parameter.path, gradient.clone(), &self.ranks)?;
                flight.arrive(&parameter.path, gradient, &self.ranks, self.steps)?;
            }
        }
        if let Some((_, filling)) = flight.filling.take() {
            flight.send(&late, filling.rest(), &self.ranks, self.steps)?;
        }
        reduced.extend(self.land(&late, flight.travelling, gradients)?.0);
        self.order = Some(Order::new(order.parameters.iter().chain(&late.parameters).cloned(), &self.ranks));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use burn::tensor::Device;
    use hearth_distributed::{Communicator, threads};
    use hearth_nn::networks::UNetConfig;

    use super::*;

    /// The gradients of one step, by path.
    type Step = &'static [(&'static str, &'static [f32])];

    fn gradients(of: Step) -> Gradients {
        let tensor = |values: &[f32]| Tensor::<1>::from_floats(values, &Device::flex());
        Gradients::from_map(of.iter().map(|(path, values)| ((*path).to_owned(), tensor(values))).collect())
    }

    fn read(gradients: &Gradients) -> Vec<(String, Vec<f32>)> {
        let values = |of: &Tensor<1>| of.clone().into_data().try_into_vec::<f32>().expect("values");
        gradients.iter().map(|(path, gradient)| (path.to_owned(), values(gradient))).collect()
    }

    fn on_ranks<T: Send>(count: usize, work: impl Fn(usize, &mut Reducer) -> T + Sync) -> Vec<T> {
        threads::run(count, |communicator| {
            let rank = communicator.rank();
            let mut ranks = Ranks::new(Arc::new(communicator));
            (ranks.deadline, ranks.bucket_bytes) = (Duration::from_secs(20), 8);
            work(rank, &mut Reducer::new(ranks))
        })
    }

    /// A gradient that one rank lacks counts as zeros; one that all ranks lack does not exist; one
    /// that appears later is known from then on.
    #[test]
    fn ranks_may_have_gradients_of_different_parameters() {
        let found = on_ranks(2, |rank, reducer| {
            let steps: [[Step; 3]; 2] = [
                [&[("a", &[2.0, 4.0])], &[("a", &[1.0, 1.0]), ("c", &[6.0])], &[("b", &[8.0])]],
                [&[("a", &[0.0, 2.0]), ("b", &[4.0])], &[("a", &[3.0, 1.0])], &[("c", &[2.0])]],
            ];
            steps[rank].map(|own| read(&reducer.mean(&gradients(own)).expect("a mean")))
        });
        let expected: [Step; 3] = [
            &[("a", &[1.0, 3.0]), ("b", &[2.0])],
            &[("a", &[2.0, 1.0]), ("c", &[3.0])],
            &[("b", &[4.0]), ("c", &[1.0])],
        ];
        for of_rank in found {
            for (step, expected) in of_rank.iter().zip(expected) {
                let expected: Vec<_> = expected.iter().map(|(path, of)| ((*path).to_owned(), of.to_vec())).collect();
                assert_eq!(*step, expected);
            }
        }
    }

    /// Equal to the bit on a CPU; a GPU may add in another order.
    fn are_equal(found: &Gradients, expected: &Gradients) -> bool {
        let exact = expected.iter().all(|(_, gradient)| gradient.device() == Device::flex());
        let near = |(a, b): (&f32, &f32)| a == b || !exact && (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        let (found, expected) = (read(found), read(expected));
        found.len() == expected.len()
            && found
                .iter()
                .zip(&expected)
                .all(|((path, a), (other, b))| path == other && a.len() == b.len() && a.iter().zip(b).all(near))
    }

    /// Buckets are sent before the backward pass has ended, with the same results.
    fn travel(device: &Device, apart: bool) {
        let found = on_ranks(2, |rank, reducer| {
            let config = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).num_res_units(1).norm("batch");
            let network = config.init(&device.clone().autodiff(), 1).expect("a network");
            let image = Tensor::<5>::ones([1, 1, 8, 8, 8], device) * (rank as f32 + 1.0);
            let pass = |network: &hearth_nn::networks::UNet| network.forward(image.clone().autodiff()).sum();
            let alone = Gradients::of(&network, &pass(&network));
            let by_hand = reducer.mean(&alone).expect("a mean");
            let mut under_way = Vec::new();
            for _ in 0..2 {
                // A pass that is given up.
                let other =
                    reducer.watch(&network, &Watching { apart, ..Watching::default() }).expect("several buckets");
                Gradients::of(&network, &(pass(&other) * 3.0));
                // The gradients of a scaled loss, as in fp16.
                let factor = Some(Tensor::<1>::full([1], 0.25, device));
                let watched =
                    reducer.watch(&network, &Watching { factor, before: None, apart }).expect("several buckets");
                let own = Gradients::of(&network, &(pass(&watched) * 4.0)).scale(0.25);
                let reading = reducer.reading().take();
                assert_eq!(reading.is_some(), apart);
                reading.map_or(Ok(()), Reading::end).expect("no panic");
                under_way.push(reducer.flight().travelling.len());
                assert!(are_equal(&own, &alone), "watching changes nothing");
                assert!(are_equal(&reducer.mean(&own).expect("a mean"), &by_hand));
            }
            (under_way, reducer.order.as_ref().map(|order| order.buckets.buckets().len()))
        });
        for (under_way, buckets) in found {
            // All but the last bucket, which ends with the loss.
            let buckets = buckets.expect("an order");
            assert!(buckets > 5 && under_way.iter().all(|count| *count >= buckets - 2), "{under_way:?} of {buckets}");
        }
    }

    #[test]
    fn gradients_travel_while_the_backward_pass_goes_on() {
        travel(&Device::flex(), false);
    }

    /// A separate thread of gradients and a pass with synchronized norms would start their
    /// operations in any order.
    #[test]
    fn gradients_wait_where_norms_meet_beside_their_thread() {
        let found = on_ranks(2, |_, reducer| {
            let config = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).num_res_units(1).norm("syncbatch");
            let network = config.init(&Device::flex().autodiff(), 1).expect("a network");
            let ranks = reducer.ranks.clone();
            let before = [ranks.overlaps(false), ranks.overlaps(true)];
            let norms = ranks.norms(0);
            norms.within(|| network.forward(Tensor::<5>::ones([1, 1, 8, 8, 8], &Device::flex()).autodiff()));
            norms.check().expect("all ranks");
            (before, [reducer.ranks.overlaps(false), reducer.ranks.overlaps(true)])
        });
        assert_eq!(found, [([true, true], [true, false]); 2]);
    }

    #[test]
    fn gradients_travel_that_a_thread_reads() {
        travel(&Device::flex(), true);
    }

    #[cfg(feature = "vulkan")]
    #[test]
    #[ignore = "needs Vulkan"]
    fn gradients_of_a_card_travel_on_vulkan() {
        travel(&crate::gpu::device(), true);
    }
}
