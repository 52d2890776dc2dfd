//! The cases of a data set that `hearth evaluate` measures.

use std::collections::BTreeSet;
use std::path::Path;

use hearth_data::Item;
use hearth_registry::unknown;
use hearth_train::RunFolder;

use crate::cases::Cases;
use crate::plan::Plan;
use crate::record::Record;
use hearth_recipe::{Outcome, RecipeError};

/// The reason for this choice of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The run's own data: the cases on which it validated.
    Validation,
    /// Data that the run has not seen: all labelled cases.
    Foreign,
    /// `--all` requested all labelled cases.
    All,
    /// `--cases` named these cases.
    Named,
}

/// The cases that are measured.
pub struct Chosen {
    /// The cases, in the order of the data set.
    pub items: Vec<Item>,
    /// The reason for this choice.
    pub rule: Rule,
    /// The number of cases on which the run trained.
    pub trained_on: usize,
}

impl Chosen {
    /// Chooses cases of a data set: all of them, the named ones, or those in the run's record.
    ///
    /// A data set counts as the run's own if it has all cases with which the run was started; it
    /// may have moved. Without a record (a run of an early version), the recipe splits it.
    pub fn new(folder: &RunFolder, plan: &Plan, data: &Path, all: bool, names: &[String]) -> Outcome<Self> {
        Self::of_runs(std::slice::from_ref(folder), plan, data, all, names)
    }

    /// Chooses cases for several runs that are measured as one: from their own data, only cases on
    /// which none of them trained.
    ///
    /// # Errors
    /// Same as [`Chosen::new`], or if all cases of the data were used for training.
    pub fn of_runs(folders: &[RunFolder], plan: &Plan, data: &Path, all: bool, names: &[String]) -> Outcome<Self> {
        let items = Cases::all(data, &plan.recipe)?;
        let records = folders.iter().map(Record::read).collect::<Outcome<Vec<_>>>()?;
        let record = records.iter().flatten().next();
        let cases = |of: fn(&Record) -> &[String]| -> BTreeSet<&str> {
            records.iter().flatten().flat_map(|record| of(record).iter().map(String::as_str)).collect()
        };
        let (trained, mut validated) = (cases(Record::training), cases(Record::validation));
        if folders.len() > 1 {
            validated.retain(|case| !trained.contains(case));
        }
        let known: BTreeSet<&str> = items.iter().map(|item| item.case.as_str()).collect();
        let own = !trained.is_empty() && trained.iter().chain(&validated).all(|case| known.contains(case));
        let (items, rule) = if !names.is_empty() {
            if let Some(name) = names.iter().find(|name| !known.contains(name.as_str())) {
                let known: Vec<&str> = known.into_iter().collect();
                return Err(RecipeError::new(format!("--cases: {}", unknown("case", name, &known))));
            }
            (items.into_iter().filter(|item| names.contains(&item.case)).collect(), Rule::Named)
        } else if all {
            (items, Rule::All)
        } else if own {
            let held: Vec<Item> = items.into_iter().filter(|item| validated.contains(item.case.as_str())).collect();
            if held.is_empty() && folders.len() > 1 {
                let what = "each case of this data was trained on by one of the runs";
                let advice = "give data that they have not seen, or measure what they know with --all or --cases";
                return Err(RecipeError::new(format!("--data {}: {what}; {advice}", data.display())));
            }
            (held, Rule::Validation)
        } else if record.is_none() {
            (Cases::open(data, &plan.recipe)?.validation, Rule::Validation)
        } else {
            (items, Rule::Foreign)
        };
        if items.is_empty() {
            return Err(RecipeError::new(format!("--data {}: there is no labelled case to measure", data.display())));
        }
        // Cases of other data may have the same names as training cases.
        let trained_on = items.iter().filter(|item| own && trained.contains(item.case.as_str())).count();
        Ok(Self { items, rule, trained_on })
    }

    /// A description of the rule, for the end of a table.
    pub fn words(&self) -> String {
        let count = self.items.len();
        let cases = if count == 1 { "case" } else { "cases" };
        let which = match self.rule {
            Rule::Validation => format!("the {count} {cases} that the run validated on"),
            Rule::Foreign => format!("all {count} labelled {cases} of data that the run has not seen"),
            Rule::All => format!("all {count} labelled {cases}"),
            Rule::Named => format!("{count} {cases}, chosen by name"),
        };
        match self.trained_on {
            0 => which,
            trained => format!("{which}; the run trained on {trained} of them"),
        }
    }
}
