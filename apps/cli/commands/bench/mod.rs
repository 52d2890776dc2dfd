//! `hearth bench`: benchmarks on this machine, with one JSON line per measurement, under the names of
//! MONAI's benchmark. Every number is the median of `--runs` runs after a warm-up.

mod course;
mod crop;
mod datasets;
mod files;
mod fit;
mod ladder;
mod layers;
mod markdown;
mod models;
mod networks;
mod options;
mod peer;
mod profiling;
mod reach;
mod stored;
mod tiles;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Instant;

use burn::tensor::Device;
use clap::ValueEnum;
use hearth::kernels::TuningClock;
use hearth_train::device::{self, ConvolutionsWord, TuneWord};
use serde_json::{Map, Value, json};

use crate::error::{Context, Failure, Outcome};
use crate::{interrupt, out};

/// The prefix of temporary folders with generated data and caches.
const SCRATCH: &str = "hearth-bench-";

/// Arguments of `hearth bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The benchmark to run
    bench: Bench,
    /// The input files: for load: CT; for preprocess, crop, stored: CT LABEL; for tiles: a slide; for
    /// fit: a Decathlon folder; for ladder: RECIPE DATA, or nothing for generated volumes; for
    /// datasets: a Decathlon folder of CT, or nothing; for models: names of networks
    files: Vec<PathBuf>,
    /// The number of measurements after the warm-up [default: 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// The number of threads [default: all of the machine]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// step, profile, infer: the network [default: unet]
    #[arg(long)]
    net: Option<networks::Net>,
    /// The device to compute on: cpu, cuda:0, vulkan, rocm:0, metal, auto [default: cpu]
    #[arg(long)]
    device: Option<String>,
    /// Time to spend on choosing GPU kernels: off, quick, full or auto [default: auto]
    #[arg(long)]
    tune: Option<String>,
    /// Whose kernels compute convolutions on a GPU of NVIDIA: own, vendor (cuDNN) or auto [default: own]
    #[arg(long, value_name = "WHOSE")]
    convolutions: Option<String>,
    /// The mixed precision [default: none; ladder: what the device computes fastest in]
    #[arg(long)]
    amp: Option<Amp>,
    /// step, profile, infer, crop, stored, tiles, fit, datasets: the patch size along each axis, in
    /// voxels (tiles: pixels)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    patch: Option<u32>,
    /// step, profile: the number of patches in a batch; datasets: the number of cases [default: 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: Option<u32>,
    /// infer: the size N of the volume, which has N x N x N/2 voxels [default: 160]; ladder, datasets:
    /// the voxels in plane of generated volumes, 16 to 1024 [default: 64, 128]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=4096))]
    size: Option<u32>,
    /// ladder, datasets: the number of generated volumes [default: 24, 12]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cases: Option<u32>,
    /// infer: the number of windows per batch [default: 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    sw_batch: Option<u32>,
    /// fit, ladder: the maximum number of epochs [default: 60]; datasets: the number of epochs
    /// [default: 3]
    #[arg(long, visible_alias = "max-epochs", value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// fit, ladder: the number of epochs between validations [default: 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// fit: the number of last cases that validate [default: 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    val: Option<u32>,
    /// fit, ladder: stop at this mean Dice [default: 0.8]
    #[arg(long)]
    target: Option<f64>,
    /// fit, ladder, datasets, models, crop, stored, tiles: the seed [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// ladder: the number of trainings of each row, with seeds from --seed on [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// datasets: measure this kind only, in this process
    #[arg(long)]
    kind: Option<datasets::Kind>,
    /// ladder, datasets: a folder for tables, raw lines and pictures
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// ladder: continue in --out; finished trainings are not repeated
    #[arg(long, requires = "out")]
    resume: bool,
    /// ladder: train these rows only, with all changes of the rows before them: plain,kernels,cache,...
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    rows: Vec<String>,
    /// ladder, datasets: the raw lines of another program, shown beside ours: what
    /// docs/benches/ladder_peer.py and datasets_peer.py print
    #[arg(long, value_name = "FILE", conflicts_with = "kind")]
    peer: Option<PathBuf>,
    /// layers: start no measurement after this number of seconds [default: 60]
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// Print only the JSON line, without the readable line on standard error
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Bench {
    /// One training step
    Step,
    /// Read a NIfTI file
    Load,
    /// The spleen recipe's deterministic transforms
    Preprocess,
    /// The random transforms, on cached data
    Crop,
    /// Random crops from the persistent cache
    Stored,
    /// Regions of a whole-slide image
    Tiles,
    /// Sliding-window inference over a volume
    Infer,
    /// Train to a target Dice
    Fit,
    /// A recipe's training to a target, with one more speed-up in each row
    Ladder,
    /// Loading from each kind of data set: start, epochs, memory
    Datasets,
    /// Forward and backward passes of every network's example
    Models,
    /// Convolutions of UNet, nnU-Net and SwinUNETR, each in three directions and three types
    Layers,
    /// The cost of recording a profile, per training step
    Profile,
    /// The program's start-up
    Import,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Amp {
    None,
    Tf32,
    Bf16,
    Fp16,
}

impl Amp {
    fn word(self) -> &'static str {
        match self {
            Amp::None => "none",
            Amp::Tf32 => "tf32",
            Amp::Bf16 => "bf16",
            Amp::Fp16 => "fp16",
        }
    }

    fn precision(self) -> hearth_train::Precision {
        match self {
            Amp::None => hearth_train::Precision::Fp32,
            Amp::Tf32 => hearth_train::Precision::Tf32,
            Amp::Bf16 => hearth_train::Precision::Bf16,
            Amp::Fp16 => hearth_train::Precision::Fp16,
        }
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Outcome {
    options::check(args)?;
    // Ctrl-C removes the temporary folders.
    interrupt::listen()?;
    interrupt::between("the other measurements are missing");
    hearth::kernels::join_thread_pool(args.threads.map_or(0, |threads| threads as usize))?;
    LazyLock::force(&CLOCK);
    match args.bench {
        Bench::Step => networks::step(args),
        Bench::Infer => networks::infer(args),
        Bench::Load => files::load(args),
        Bench::Preprocess => files::preprocess(args),
        Bench::Crop => crop::run(args),
        Bench::Stored => stored::run(args),
        Bench::Tiles => tiles::run(args),
        Bench::Fit => fit::run(args),
        Bench::Ladder => ladder::run(args),
        Bench::Datasets => datasets::run(args),
        Bench::Models => models::run(args),
        Bench::Layers => layers::run(args),
        Bench::Profile => profiling::run(args),
        Bench::Import => import(args),
    }
}

/// The start-up time of the program.
fn import(args: &Args) -> Outcome {
    let program = std::env::current_exe()?;
    let mut error = None;
    let times = timed(args.runs(), 1, || {
        let output = std::process::Command::new(&program).arg("--help").output();
        error = output.err().or(error.take());
        Ok(())
    })?;
    if let Some(error) = error {
        return Err(Failure::from(error).context("the program cannot start itself"));
    }
    say(args, json!({ "bench": "import", "seconds": times.median, "min": times.min, "max": times.max }))
}

impl Args {
    /// The device, with the requested tuning.
    fn device(&self) -> Outcome<Device> {
        let tune: TuneWord = self.tune().parse().while_doing(|| "--tune")?;
        let device = device::parse(self.device_name())?;
        let precision = self.amp().precision();
        if precision == hearth_train::Precision::Tf32 && !precision.rounds(&device) {
            return Err(Failure::new(format!(
                "--amp tf32 is for CUDA, and {} computes in fp32",
                device::name(&device)
            )));
        }
        tune.set(&device);
        let convolutions: ConvolutionsWord = self.convolutions().parse().while_doing(|| "--convolutions")?;
        convolutions.set(&device).while_doing(|| "--convolutions")?;
        Ok(device)
    }

    /// The n-th file, or an error if it is missing.
    fn file(&self, n: usize, what: &str) -> Outcome<&PathBuf> {
        self.files
            .get(n)
            .ok_or_else(|| Failure::new(format!("hearth bench {} needs {what}", options::word(self.bench))))
    }

    /// The number of measurements after the warm-up.
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(5)
    }

    /// The name of the device.
    fn device_name(&self) -> &str {
        self.device.as_deref().unwrap_or("cpu")
    }

    /// The word for the tuning of kernels.
    fn tune(&self) -> &str {
        self.tune.as_deref().unwrap_or("auto")
    }

    fn convolutions(&self) -> &str {
        self.convolutions.as_deref().unwrap_or("own")
    }

    /// The mixed precision.
    fn amp(&self) -> Amp {
        self.amp.unwrap_or(Amp::None)
    }

    /// The seed, or the first one.
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// The network of `step`, `profile` and `infer`.
    fn net(&self) -> networks::Net {
        self.net.unwrap_or(networks::Net::Unet)
    }

    /// The maximum number of epochs of `fit` and `ladder`.
    fn epochs(&self) -> u64 {
        self.epochs.unwrap_or(60)
    }

    /// The goal at which `fit` and `ladder` stop.
    fn goal(&self) -> reach::Goal {
        reach::Goal { target: self.target.unwrap_or(0.80), every: self.every.unwrap_or(2) }
    }
}

/// The seconds of several runs.
struct Times {
    median: f64,
    min: f64,
    max: f64,
}

/// Calls `one` for the warm-up and then `runs` times.
fn timed(runs: u32, warm_up: u32, mut one: impl FnMut() -> Outcome) -> Outcome<Times> {
    let mut seconds = Vec::with_capacity(runs as usize);
    for turn in 0..runs + warm_up {
        let start = Instant::now();
        one()?;
        if turn >= warm_up {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let median = median(&mut seconds);
    Ok(Times { median, min: seconds[0], max: seconds[seconds.len() - 1] })
}

/// Sorts the values and returns their median; of an even number, the mean of the middle two.
fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    if seconds.len() % 2 == 1 { seconds[middle] } else { (seconds[middle - 1] + seconds[middle]) / 2.0 }
}

/// The kernel tuning since the first measurement began.
static CLOCK: LazyLock<TuningClock> = LazyLock::new(TuningClock::start);

/// The line of a measurement: what was measured, and by which program.
fn stamped(fields: Value) -> Value {
    let mut line = Map::new();
    line.insert("peer".into(), "hearth".into());
    line.insert("hearth".into(), env!("CARGO_PKG_VERSION").into());
    line.insert("threads".into(), rayon::current_num_threads().into());
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    // Kernel tuning on a GPU for new shapes belongs to the warm-up, not to the measurement.
    let tuning = CLOCK.spent();
    if tuning.kernels > 0 {
        line.insert("tuned_kernels".into(), tuning.kernels.into());
        line.insert("tuning_seconds".into(), tuning.seconds.into());
    }
    Value::Object(line)
}

/// Prints a measurement.
fn say(args: &Args, fields: Value) -> Outcome {
    let line = stamped(fields);
    out!("{line}");
    if !args.json {
        let name = line.get("bench").and_then(Value::as_str).unwrap_or_default();
        match line.get("seconds").and_then(Value::as_f64) {
            Some(seconds) => crate::note!("{name}: {}", crate::terminal::seconds(seconds)),
            None if name == "models" => {}
            None => crate::note!("{name}: the target was not reached"),
        }
    }
    Ok(())
}

/// The last component of a path.
fn file_name(path: &std::path::Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
