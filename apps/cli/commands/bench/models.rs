//! Measures forward and backward passes of the catalogue's networks, each in its own process, so that
//! its peak memory is measured separately.

use burn::tensor::{DType, Distribution, Tensor};
use hearth_nn::networks::Network;
use hearth_nn::optim::Gradients;
use serde_json::json;

use super::{Args, median, say};
use crate::commands::network::Example;
use crate::error::{Context, Failure, Outcome};

/// Runs the benchmark for the networks named as arguments, or for all.
pub fn run(args: &Args) -> Outcome {
    let names: Vec<String> = args.files.iter().map(|name| name.display().to_string()).collect();
    if let [name] = names.as_slice() {
        return measure(args, name);
    }
    for name in &names {
        Example::named(name)?;
    }
    let all: Vec<String> = Example::all()?.iter().map(|example| example.entry.name.to_owned()).collect();
    let program = std::env::current_exe().while_doing(|| "the program cannot find itself")?;
    let mut failed = Vec::new();
    for name in if names.is_empty() { all } else { names } {
        let mut child = std::process::Command::new(&program);
        child.args(["bench", "models", &name, "--json", "--runs", &args.runs().to_string()]);
        child.args([
            "--device",
            args.device_name(),
            "--tune",
            args.tune(),
            "--convolutions",
            args.convolutions(),
            "--seed",
            &args.seed().to_string(),
            "--amp",
            args.amp().word(),
        ]);
        if let Some(threads) = args.threads {
            child.args(["--threads", &threads.to_string()]);
        }
        if !child.status().while_doing(|| format!("measuring {name}"))?.success() {
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(format!("not measured: {}", failed.join(", ")))) }
}

fn measure(args: &Args, name: &str) -> Outcome {
    let Example { entry, config } = Example::named(name)?;
    let input = config.example_input();
    let plain = args.device()?;
    let device = plain.clone().autodiff();
    let precision = args.amp().precision();
    precision.prepare(&plain)?;
    let net = precision.apply(config.init(&device, args.seed())?);
    net.check_input(input)?;
    plain.seed(args.seed());
    let x = Tensor::<5>::random(input, Distribution::Uniform(0.0, 1.0), &device);
    let base = peak();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for turn in 0..=args.runs() {
        net.set_draw(args.seed(), turn.into());
        let start = std::time::Instant::now();
        let (outputs, own) = net.forward_with_loss(x.clone());
        let squares = outputs.into_iter().map(|y| y.cast(DType::F32).powi_scalar(2).mean());
        let Some(loss) = squares.chain(own).reduce(|a, b| a + b) else {
            return Err(Failure::new(format!("{name} returned no output")));
        };
        plain.sync().while_doing(|| "the device failed")?;
        let middle = std::time::Instant::now();
        let gradients = Gradients::of(&net, &loss);
        plain.sync().while_doing(|| "the device failed")?;
        let end = std::time::Instant::now();
        drop(gradients);
        if turn > 0 {
            forward.push((middle - start).as_secs_f64());
            backward.push((end - middle).as_secs_f64());
        }
    }
    let fields = json!({
        "bench": "models", "name": entry.name, "input": input, "device": args.device_name(), "amp": args.amp().word(),
        "forward": median(&mut forward), "backward": median(&mut backward), "base": base, "peak": peak(),
    });
    say(args, fields)
}

/// The peak memory of this process in bytes; `None` if the operating system does not report it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
