//! `hearth recipes list|show`.

use clap::Subcommand;

use crate::error::Outcome;
use crate::out;
use crate::recipe::bundled;
use crate::terminal::bold;

/// Arguments of `hearth recipes`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the bundled recipes
    List,
    /// Print a recipe, as a starting point for your own
    Show {
        /// The recipe's name
        name: String,
    },
}

/// Lists or prints recipes.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::List => {
            let width = bundled::ALL.iter().map(|recipe| recipe.name.len()).max().unwrap_or(0);
            for recipe in bundled::ALL {
                out!("{}{}  {}", bold(recipe.name), " ".repeat(width - recipe.name.len()), recipe.about());
            }
        }
        Action::Show { name } => out!("{}", bundled::find(name)?.text.trim_end()),
    }
    Ok(())
}
