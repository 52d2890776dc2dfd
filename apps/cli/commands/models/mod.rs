//! `hearth models`: lists networks, and counts the cost of one; the store of trained models.

mod describe;
mod page;
mod stored;

use clap::Subcommand;
use hearth_registry::Entry;
use serde_json::{Value, json};

use super::network::Example;
use crate::error::Outcome;
use crate::out;
use crate::table::{self, Lean};

/// Arguments of `hearth models`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the networks that a recipe can name, or the stored trained models
    List {
        /// Print everything as JSON, with an example of each
        #[arg(long)]
        json: bool,
        /// List the trained models that `hearth models add` stored
        #[arg(long)]
        stored: bool,
        /// The place of the store, for `--stored`.
        #[command(flatten)]
        store: stored::StoreArgs,
    },
    /// Copy a trained model into the store: a package, a folder, or a downloaded zip
    Add(stored::AddArgs),
    /// Print the files, checksums, labels and licence of a stored model or a package
    Info(stored::InfoArgs),
    /// Remove a stored model
    Remove(stored::RemoveArgs),
    /// Print the parameters, FLOPs and activations of a network, part by part
    Describe(describe::Args),
    /// Print docs/models.md: each network's example with its cost and measured times
    Table,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::List { json, stored: true, store } => stored::list(*json, store)?,
        Action::Add(args) => stored::add(args)?,
        Action::Info(args) => stored::info(args)?,
        Action::Remove(args) => stored::remove(args)?,
        Action::List { json: true, .. } => out!("{}", serde_json::to_string_pretty(&listed()?)?),
        Action::List { json: false, store, .. } => {
            list()?;
            stored::tell_of(store);
        }
        Action::Describe(args) => describe::run(args)?,
        Action::Table => out!("{}", page::text()?.trim_end()),
    }
    Ok(())
}

fn list() -> Outcome {
    let columns = [("name", Lean::Left), ("dimensions", Lean::Left), ("for", Lean::Left), ("paper", Lean::Left)];
    let rows: Vec<Vec<String>> = Example::all()?
        .iter()
        .map(|example| {
            let Entry { name, about, paper, .. } = example.entry;
            vec![(*name).to_owned(), example.dims(), (*about).to_owned(), (*paper).to_owned()]
        })
        .collect();
    table::lines(&columns, &rows).iter().for_each(|line| out!("{line}"));
    Ok(())
}

fn listed() -> Outcome<Vec<Value>> {
    Example::all()?
        .iter()
        .map(|example| {
            let Entry { name, about, paper, .. } = example.entry;
            Ok(json!({
                "name": name, "dims": example.config.dims(), "about": about, "paper": paper,
                "example": example.json()?, "input": example.config.example_input(),
            }))
        })
        .collect()
}
