//! The command line: what can be typed, and which command does it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{bench, data, demo, devices, evaluate, plugin, predict, preprocess, recipes, train};
use crate::error::Outcome;

/// Train, evaluate and run medical-imaging networks, on any GPU or none.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Start with `hearth demo`, or `hearth train spleen --data Task09_Spleen --out runs/first`.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train, validate and predict on generated volumes, with a picture to look at; needs no data
    Demo(demo::Args),
    /// Train a network as a recipe says
    Train(train::Args),
    /// Measure a run's network on labelled cases
    Evaluate(evaluate::Args),
    /// Segment images; the labels are on the images' own grids
    Predict(predict::Args),
    /// Write what a recipe's deterministic transforms make of a case
    Preprocess(preprocess::Args),
    /// Make data sets
    Data(data::Args),
    /// List the devices that this program can use
    Devices(devices::Args),
    /// Find, look into, check and write plugins
    Plugin(plugin::Args),
    /// List and show the bundled recipes
    Recipes(recipes::Args),
    /// Measure this machine: the work and the names of MONAI's counterpart
    Bench(bench::Args),
}

/// Parses the arguments, does the command, prints its error.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code())
        }
    }
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Command::Demo(args) => demo::run(&args),
            Command::Train(args) => train::run(&args),
            Command::Evaluate(args) => evaluate::run(&args),
            Command::Predict(args) => predict::run(&args),
            Command::Preprocess(args) => preprocess::run(&args),
            Command::Data(args) => data::run(&args),
            Command::Devices(args) => devices::run(&args),
            Command::Plugin(args) => plugin::run(&args),
            Command::Recipes(args) => recipes::run(&args),
            Command::Bench(args) => bench::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
