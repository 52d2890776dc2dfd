//! The engine's overhead: the trainer's loop compared with a plain one on the same work. Printed;
//! run with `--nocapture`.

use std::time::Instant;

use crate::common::{Balls, loss, network};
use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::losses::Loss;
use hearth_nn::networks::Network;
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_train::{Loader, SupervisedTrainer, TrainerOptions};

#[test]
fn the_engines_share_of_a_step() {
    const STEPS: u64 = 100;
    const ROUNDS: usize = 5;
    let data = Balls { cases: 2 * STEPS as usize, batch: 2 };
    let optimizer = OptimizerConfig::sgd(0.9);
    let plain = || {
        let (mut net, mut own, loss) = (network(0, 0.0), optimizer.build().unwrap(), loss());
        let mut last = 0.0;
        let start = Instant::now();
        for batch in data.pass(1, 0) {
            let batch = batch.unwrap();
            let image = batch.tensors["image"].clone().autodiff();
            let value = loss.forward(net.forward(image), batch.tensors["label"].clone()).unwrap();
            let gradients = Gradients::of(&net, &value);
            net = own.step(net, gradients, 1e-3).unwrap();
            last = value.into_scalar::<f32>();
        }
        (start.elapsed(), last, hearth_nn::weights::to_bytes(&net.valid()).unwrap())
    };
    let engine = || {
        let options = TrainerOptions::new(&Device::flex());
        let mut trainer = SupervisedTrainer::builder(network(0, 0.0), loss(), &optimizer, data.clone())
            .options(options)
            .build()
            .unwrap();
        trainer
            .engine_mut()
            .on(hearth_engine::Event::IterationCompleted, |cx| Ok(cx.host.output("loss").map(|_| ())?))
            .unwrap();
        let start = Instant::now();
        trainer.run().unwrap();
        (start.elapsed(), hearth_nn::weights::to_bytes(trainer.network().unwrap()).unwrap())
    };
    let (mut of_plain, mut of_engine) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (time, _, weights) = plain();
        of_plain.push(time.as_secs_f64());
        let (time, same) = engine();
        of_engine.push(time.as_secs_f64());
        assert!(weights == same, "the same work yields the same weights");
    }
    let per_step = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        [seconds[0], seconds[ROUNDS / 2]].map(|seconds| 1e6 * seconds / STEPS as f64)
    };
    let ([plain_best, plain], [engine_best, engine]) = (per_step(of_plain), per_step(of_engine));
    println!(
        "us per step, best: plain loop {plain_best:.0}, trainer {engine_best:.0}; difference {:.0}",
        engine_best - plain_best
    );
    println!("us per step, median: plain loop {plain:.0}, trainer {engine:.0}; difference {:.0}", engine - plain);
}
