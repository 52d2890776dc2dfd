//! `hearth models`: which networks there are, and what one of them costs.

mod describe;
mod page;

use clap::Subcommand;
use hearth_nn::networks::CATALOGUE;
use serde_json::{Value, json};

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
    /// List the networks that a recipe can name
    List {
        /// Everything as JSON, with an example of each
        #[arg(long)]
        json: bool,
    },
    /// Parameters, FLOPs and activations of a network, part by part
    Describe(describe::Args),
    /// Print docs/models.md: every network's example with its cost and the times that were measured
    Table,
}

/// Lists, describes or prints.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::List { json: true } => out!("{}", serde_json::to_string_pretty(&listed()?)?),
        Action::List { json: false } => list(),
        Action::Describe(args) => describe::run(args)?,
        Action::Table => out!("{}", page::text()?.trim_end()),
    }
    Ok(())
}

fn list() {
    let columns = [("name", Lean::Left), ("dimensions", Lean::Left), ("for", Lean::Left), ("paper", Lean::Left)];
    let rows: Vec<Vec<String>> = CATALOGUE
        .iter()
        .map(|entry| {
            let dims: Vec<String> = entry.dims.iter().map(|dims| format!("{dims}-D")).collect();
            vec![entry.name.to_owned(), dims.join(", "), entry.about.to_owned(), entry.paper.to_owned()]
        })
        .collect();
    table::lines(&columns, &rows).iter().for_each(|line| out!("{line}"));
}

fn listed() -> Outcome<Vec<Value>> {
    CATALOGUE
        .iter()
        .map(|entry| {
            let example: Value = serde_json::from_str(entry.example)?;
            Ok(json!({
                "name": entry.name, "dims": entry.dims, "about": entry.about, "paper": entry.paper,
                "example": example, "input": entry.input,
            }))
        })
        .collect()
}
