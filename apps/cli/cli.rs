//! The command line: arguments and subcommands.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use hearth_recipe::notice;
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::prelude::*;

#[cfg(feature = "serve")]
use crate::commands::serve;
use crate::commands::{
    bench, bundle, completions, convert, data, demo, devices, doctor, ensemble, evaluate, export, lr_find, man, memory,
    metrics, models, plan, plugin, predict, preprocess, profile, recipes, reference, report, trace, train, tune, watch,
};
use crate::cores;
use crate::error::{Failure, Outcome};
use crate::ranks::{self, RanksArgs};
use crate::repeated;
use crate::terminal;
use crate::version::Version;
use crate::warnings::Warnings;

/// Train, evaluate and run medical-imaging networks, on any GPU or none.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Start with `hearth demo`, or `hearth train spleen --data Task09_Spleen --out runs/first`.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log more; repeat it (-vv) for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Load this plugin although only a recipe names its file: the path of the library, or the name of
    /// the plugin
    #[arg(long = "allow-plugin", global = true, value_name = "PATH|NAME")]
    allowed_plugins: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train, validate and predict on generated volumes, and draw the result; needs no data
    Demo(demo::Args),
    /// Train a network by a recipe
    Train(train::Args),
    /// Find a learning rate: train with rising rates until the loss diverges; only the curve is kept
    LrFind(lr_find::Args),
    /// Measure where the training time goes, and which recipe settings would change it
    Profile(profile::Args),
    /// Summarize a trace of PyTorch or Hearth: loading, forward and backward pass, steps
    Trace(trace::Args),
    /// Choose a GPU's kernels for a recipe before its run; export and import such choices
    Tune(tune::Args),
    /// Estimate a recipe's memory by purpose before a run, and which batch and crop fit
    Memory(memory::Args),
    /// Measure a run's network on labelled cases
    Evaluate(evaluate::Args),
    /// Predict with a run's network or a trained nnU-Net v2 model: label maps on the images' own grids,
    /// scores, numbers, images
    Predict(predict::Args),
    /// Predict with several runs and merge the results: mean, vote or STAPLE; maps of where they differ
    Ensemble(ensemble::Args),
    /// Serve models over HTTP, as MONAI Label does for 3D Slicer, and to DICOM nodes
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    /// Plan patch, network and batch for a data set as nnU-Net does: write its fingerprint and plans
    Plan(plan::Args),
    /// Apply a recipe's deterministic transforms to a case and write the result
    Preprocess(preprocess::Args),
    /// Compare predictions with labels, file by file: Dice, distances, rates, errors
    Metrics(metrics::Args),
    /// Watch a running training in the terminal or as a web page, or rank the runs of a folder
    Watch(watch::Args),
    /// Write an HTML page about one or several runs: curves, cases, times, recipe; it works offline
    Report(report::Args),
    /// List networks, and count the cost of one; store and describe trained models
    Models(models::Args),
    /// Convert images between NIfTI, NRRD, MetaImage, DICOM and surfaces, and PyTorch and MONAI weights
    /// to safetensors
    Convert(convert::Args),
    /// Run MONAI bundles without Python; inspect a bundle, and convert it to a recipe
    Bundle(bundle::Args),
    /// Write a run as one file or for another program: an nnU-Net v2 model folder, a MONAI bundle, an
    /// ONNX model
    Export(export::Args),
    /// Make, inspect and check data sets
    Data(data::Args),
    /// List the devices that this program can use
    Devices(devices::Args),
    /// Check this machine: CPU, memory, disk, GPUs and drivers, plugins, MPI; report what is missing
    /// and how to fix it
    Doctor(doctor::Args),
    /// Find, inspect, check and write plugins
    Plugin(plugin::Args),
    /// List and show the bundled recipes
    Recipes(recipes::Args),
    /// Print everything that a recipe can name: parameters, defaults, examples, papers
    Reference(reference::Args),
    /// Benchmark this machine, with the names of MONAI's benchmarks
    Bench(bench::Args),
    /// Print the shell script that completes commands and options
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

/// The command line, with the long version text, which is known only at run time.
pub fn command() -> clap::Command {
    static LONG: LazyLock<String> = LazyLock::new(|| Version::here().to_string());
    Cli::command().long_version(LONG.as_str())
}

/// Parses the arguments, runs the command and prints its error.
pub fn main() -> ExitCode {
    let matches = command().try_get_matches();
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| end(&error));
    listen(cli.verbose);
    limit_memory();
    // `--plugin` adds more later.
    hearth_plugin_host::provide_components(&[]);
    if let Ok(program) = std::env::current_exe() {
        hearth_plugin_host::isolate_with([program.into(), "plugin".into(), "serve-isolated".into()]);
    }
    // Before other threads start: they inherit the cores of this one.
    cores::pin_if_asked();
    if cli.command.computes() {
        // The process is new, so there is no pool yet.
        let _ = hearth::kernels::join_thread_pool(0);
    }
    if cli.command.only_prints() {
        terminal::only_prints();
    }
    let done = plugin::consent::allow(&cli.allowed_plugins).and_then(|()| cli.command.run());
    repeated::report();
    match done {
        Ok(()) => {
            plugin::consent::report_unused();
            ExitCode::from(u8::from(terminal::has_lost_lines()))
        }
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code())
        }
    }
}

/// Prints help, the version, or what is wrong with the arguments, and exits.
fn end(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        // Unlike clap, `line` reports a failed write.
        let styled = error.render();
        let text = if terminal::colours_on_stdout() { styled.ansi().to_string() } else { styled.to_string() };
        terminal::only_prints();
        terminal::line(format_args!("{}", text.trim_end_matches('\n')));
        std::process::exit(0);
    }
    error.exit()
}

/// Makes an allocation that cannot succeed an error with a message. The limit is fixed at the start of
/// the process.
fn limit_memory() {
    let allowed = hearth_machine::Allowance::now().bytes;
    hearth::kernels::memory::limit_to(usize::try_from(allowed).unwrap_or(usize::MAX));
    hearth::kernels::memory::report_failures();
}

/// The variable that names a vendor's profiler (`nvtx` or `roctx`) that shows every range; a trailing
/// `,layers` adds each layer of the network.
const RANGES: &str = "HEARTH_RANGES";

/// Prints what the library reports: notices of a run, all warnings, and more with `-v` or the variable
/// `RUST_LOG`.
fn listen(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => {
            "warn,hearth=info,hearth_apps=info,hearth_recipe=info,hearth_train=info,hearth_image=info,hearth_io=info,hearth_transforms=info,hearth_datasets=info,hearth_phantom=info,hearth_engine=info,hearth_plugin_host=info,hearth_serve=info"
        }
        _ => {
            "info,hearth_apps=debug,hearth_recipe=debug,hearth_train=debug,hearth_image=debug,hearth_io=debug,hearth_transforms=debug,hearth_datasets=debug,hearth_phantom=debug,hearth_engine=debug,hearth_plugin_host=debug,hearth_serve=debug"
        }
    };
    let is_notice = |metadata: &Metadata| metadata.target() == notice::TARGET;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(terminal::stderr)
        .log_internal_errors(false)
        .without_time()
        .with_target(false)
        .with_ansi(terminal::colours_on_stderr())
        .with_filter(filter)
        .with_filter(filter_fn(move |metadata| !is_notice(metadata)));
    let notices = terminal::Notices.with_filter(filter_fn(is_notice));
    let kept = Warnings.with_filter(LevelFilter::WARN);
    let (recorded, shown) = (hearth_profile::layer(), hearth_profile::markers_layer());
    let layers = tracing_subscriber::registry().with(lines).with(notices).with(kept).with(recorded).with(shown);
    // A second subscriber can only come from a test in the same process; the first one stays.
    let _ = layers.try_init();
    if let Ok(text) = std::env::var(RANGES) {
        let kind = text.strip_suffix(",layers");
        hearth::nn::layers::layer_ranges(kind.is_some());
        if let Err(why) = hearth_profile::show_ranges(kind.unwrap_or(&text)) {
            tracing::warn!("{RANGES}: {why}");
        }
    }
}

impl Command {
    /// Whether this thread runs kernels. `bench` decides for itself.
    fn computes(&self) -> bool {
        match self.ranks() {
            // Ranks that are threads share a pool; this thread is not part of it.
            Some(ranks) => ranks.alone(),
            None => matches!(
                self,
                Command::Bundle(_)
                    | Command::Demo(_)
                    | Command::LrFind(_)
                    | Command::Memory(_)
                    | Command::Metrics(_)
                    | Command::Profile(_)
            ),
        }
    }

    /// Whether the command has no result but its output.
    fn only_prints(&self) -> bool {
        match self {
            Command::Data(args) => args.only_prints(),
            Command::Memory(_)
            | Command::Watch(_)
            | Command::Models(_)
            | Command::Devices(_)
            | Command::Doctor(_)
            | Command::Recipes(_)
            | Command::Reference(_)
            | Command::Trace(_)
            | Command::Bench(_)
            | Command::Completions(_) => true,
            _ => false,
        }
    }

    /// The options of ranks, for a command whose work several ranks can share.
    fn ranks(&self) -> Option<&RanksArgs> {
        match self {
            Command::Train(args) => Some(&args.ranks),
            Command::Evaluate(args) => Some(&args.ranks),
            Command::Predict(args) => Some(&args.ranks),
            Command::Ensemble(args) => Some(&args.ranks),
            Command::Preprocess(args) => Some(&args.ranks),
            _ => None,
        }
    }

    fn run(self) -> Outcome {
        // An isolated plugin inherits the launcher's variables from its rank.
        let isolated = matches!(&self, Command::Plugin(args) if args.serves_a_rank());
        if self.ranks().is_none() && !isolated && ranks::is_launched()? {
            let what = "a launcher started several ranks, but this command runs in a single process";
            let several = "train, evaluate, predict, ensemble and preprocess run on several";
            return Err(Failure::new(format!("{what}: {several}")));
        }
        match self {
            Command::Demo(args) => demo::run(&args),
            Command::Train(args) => train::run(&args),
            Command::LrFind(args) => lr_find::run(&args),
            Command::Profile(args) => profile::run(&args),
            Command::Trace(args) => trace::run(&args),
            Command::Tune(args) => tune::run(&args),
            Command::Memory(args) => memory::run(&args),
            Command::Evaluate(args) => evaluate::run(&args),
            Command::Predict(args) => predict::run(&args),
            Command::Ensemble(args) => ensemble::run(&args),
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::run(&args),
            Command::Plan(args) => plan::run(&args),
            Command::Preprocess(args) => preprocess::run(&args),
            Command::Metrics(args) => metrics::run(&args),
            Command::Watch(args) => watch::run(&args),
            Command::Report(args) => report::run(&args),
            Command::Models(args) => models::run(&args),
            Command::Convert(args) => convert::run(&args),
            Command::Bundle(args) => bundle::run(&args),
            Command::Export(args) => export::run(&args),
            Command::Data(args) => data::run(&args),
            Command::Devices(args) => devices::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Plugin(args) => plugin::run(&args),
            Command::Recipes(args) => recipes::run(&args),
            Command::Reference(args) => reference::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Completions(args) => completions::run(&args),
            Command::Man(args) => man::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        super::command().debug_assert();
    }
}
