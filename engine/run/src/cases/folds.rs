//! The folds of a cross-validation: assigned, written to `folds.json`, read and checked.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hearth_data::layouts::Target;
use hearth_data::{
    DataError, Field, Item, PartitionOptions, group_k_fold, k_fold, partition_dataset, partition_dataset_classes,
    stratified_group_k_fold, stratified_k_fold,
};
use hearth_registry::unknown;
use serde::{Deserialize, Serialize};

use crate::cases::Cases;
use crate::cases::patients::patient_in_name;
use crate::cases::{listed_folds, seed32};
use crate::folders;
use crate::plan::Plan;
use hearth_recipe::recipe::{FoldMethod, Folds};
use hearth_recipe::text::json_fault;
use hearth_recipe::{Context, Outcome, RecipeError, notice};

/// The cases of each fold, which validate while all others train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldList {
    /// How the cases were assigned, if this program did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dealt: Option<Folds>,
    /// The names of the cases, fold by fold.
    folds: Vec<Vec<String>>,
}

/// The folds that the data set's own column `fold` assigns, unless the recipe has rules of its own.
fn of_the_list(items: &[Item], folds: &Folds) -> Outcome<Option<FoldList>> {
    if folds.method.is_some() || folds.group.is_some() || folds.stratify.is_some() || folds.shuffle.is_some() {
        return Ok(None);
    }
    let Some(listed) = listed_folds(items) else { return Ok(None) };
    let count = listed.iter().max().map_or(0, |last| last + 1);
    if count != folds.count {
        return Err(RecipeError::new(format!(
            "its column fold assigns the cases to {count} folds, not to {}: give --folds {count}, or data.folds.method to \
             assign them by other rules",
            folds.count
        )));
    }
    let mut names = vec![Vec::new(); count];
    for (item, fold) in items.iter().zip(listed) {
        names[fold].push(item.case.clone());
    }
    notice!("folds: those of the data set's column fold");
    Ok(Some(FoldList { dealt: None, folds: names }))
}

/// An entry of nnU-Net's `splits_final.json`, which is a list of these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Split {
    train: BTreeSet<String>,
    val: Vec<String>,
}

impl FoldList {
    /// Assigns the labelled cases of a data set to folds.
    ///
    /// # Errors
    /// More folds than cases or groups; a missing column, or a case without a value in it.
    pub fn deal(plan: &Plan, data: &Path, folds: &Folds) -> Outcome<Self> {
        let items = Cases::all(data, &plan.recipe)?;
        let doing = || format!("--data {}: dealing {} cases to {} folds", data.display(), items.len(), folds.count);
        if let Some(listed) = of_the_list(&items, folds).while_doing(doing)? {
            return Ok(listed);
        }
        let seed = folds.seed.unwrap_or_else(|| seed32(plan.recipe.training.seed));
        let groups = folds.group.as_deref().map(|column| groups(&items, column)).transpose().while_doing(doing)?;
        let classes = folds.stratify.as_deref().map(|column| values(&items, column)).transpose().while_doing(doing)?;
        let dealt = places(items.len(), folds, seed, classes.as_deref(), groups.as_deref()).while_doing(doing)?;
        let names = dealt.into_iter().map(|fold| fold.into_iter().map(|place| items[place].case.clone()).collect());
        let dealt = Folds { seed: folds.shuffles().then_some(seed), ..folds.clone() };
        Ok(Self { dealt: Some(dealt), folds: names.collect() })
    }

    /// Reads `folds.json`, or the `splits_final.json` of nnU-Net.
    ///
    /// # Errors
    /// A missing file, or one in another format.
    pub fn read(path: &Path) -> Outcome<Self> {
        let doing = || format!("cannot read the folds in {}", path.display());
        let text = hearth_files::read_to_string(path).while_doing(doing)?;
        let text = text.trim_start_matches('\u{feff}');
        let wrong = |error: serde_json::Error| RecipeError::new(json_fault(&error)).context(doing());
        if !text.trim_start().starts_with('[') {
            return serde_json::from_str(text).map_err(wrong);
        }
        let splits: Vec<Split> = serde_json::from_str(text).map_err(wrong)?;
        if let Some((fold, case)) = splits
            .iter()
            .enumerate()
            .find_map(|(fold, split)| Some((fold, split.val.iter().find(|c| split.train.contains(*c))?)))
        {
            return Err(RecipeError::new(format!("fold {fold} trains on {case}, and validates on it")).context(doing()));
        }
        Ok(Self { dealt: None, folds: splits.into_iter().map(|split| split.val).collect() })
    }

    /// Writes `folds.json`.
    pub fn write(&self, path: &Path) -> Outcome {
        folders::replace(path, serde_json::to_string_pretty(self)? + "\n")
    }

    /// The number of folds.
    pub fn count(&self) -> usize {
        self.folds.len()
    }

    /// The validation cases of a fold.
    pub fn cases(&self, fold: usize) -> &[String] {
        self.folds.get(fold).map_or(&[], Vec::as_slice)
    }

    /// Checks that each labelled case of the data set is in exactly one fold, and that each fold
    /// has cases to validate, including a positive one.
    ///
    /// # Errors
    /// The first case or fold that does not fit, or a label that cannot be read.
    pub fn check(&self, plan: &Plan, data: &Path) -> Outcome {
        let items = Cases::all(data, &plan.recipe)?;
        let doing = || format!("these folds do not fit --data {}", data.display());
        if self.count() < 2 {
            return Err(
                RecipeError::new(format!("there are {} folds; 2 or more are needed", self.count())).context(doing())
            );
        }
        let known: BTreeMap<&str, &Item> = items.iter().map(|item| (item.case.as_str(), item)).collect();
        let mut fold_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (fold, cases) in self.folds.iter().enumerate() {
            if cases.is_empty() {
                return Err(RecipeError::new(format!("fold {fold} has no case")).context(doing()));
            }
            for case in cases {
                if !known.contains_key(case.as_str()) {
                    let names: Vec<&str> = known.keys().copied().collect();
                    return Err(
                        RecipeError::new(format!("fold {fold}: {}", unknown("case", case, &names))).context(doing())
                    );
                }
                if let Some(other) = fold_of.insert(case, fold) {
                    let what = format!("the case {case} is in fold {other} and in fold {fold}");
                    return Err(RecipeError::new(what).context(doing()));
                }
            }
        }
        let left: Vec<&str> = known.keys().copied().filter(|case| !fold_of.contains_key(case)).collect();
        if let Some(first) = left.first() {
            let (count, all) = (left.len(), items.len());
            let what = format!("{count} of {all} labelled cases are in no fold, {first} among them");
            return Err(RecipeError::new(what).context(doing()));
        }
        for (fold, cases) in self.folds.iter().enumerate() {
            let of_fold: Vec<&Item> = cases.iter().filter_map(|case| known.get(case.as_str()).copied()).collect();
            if !any_positive(plan, &of_fold)? {
                let (all, advice) = (cases.len(), "take fewer folds, another seed, or stratify them by a column");
                return Err(RecipeError::new(format!(
                    "fold {fold} has no positive: the labels of its {all} cases are background alone ({}), so its \
                     metrics have no value; {advice}",
                    cases.iter().take(3).cloned().collect::<Vec<_>>().join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// Whether a label of these cases has foreground; numbers that are not classes always have. Labels
/// are read until the first one with foreground.
fn any_positive(plan: &Plan, items: &[&Item]) -> Outcome<bool> {
    let recipe = &plan.recipe;
    if !recipe.output().is_map() {
        let task = recipe.learns();
        let has = |item: &&Item| match item.fields.get("label") {
            Some(Field::Number(class)) => *class > 0.0,
            Some(Field::Numbers(flags)) => flags.iter().any(|flag| *flag > 0.5),
            _ => true,
        };
        let counts = task.gives_probabilities() && matches!(task.target(), Target::Fields(_));
        return Ok(!counts || items.iter().any(has));
    }
    for item in items {
        let mut samples = plan.label.run_deterministic(item.sample())?;
        let mut sample = samples.pop().ok_or_else(|| RecipeError::new(format!("case {} has no label", item.case)))?;
        let most = sample.take_image("label")?.data.max().try_into_scalar::<f32>();
        let most = most.map_err(|error| RecipeError::new(format!("the label of {}: {error}", item.case)))?;
        if most > 0.0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The indices of the cases of each fold.
fn places(
    count: usize,
    folds: &Folds,
    seed: u32,
    classes: Option<&[Value]>,
    groups: Option<&[Value]>,
) -> Result<Vec<Vec<usize>>, DataError> {
    let shuffled = folds.shuffles().then_some(seed);
    match (folds.rules(), classes, groups) {
        (FoldMethod::Monai, classes, _) => {
            let options = PartitionOptions { shuffle: folds.shuffles(), seed, ..PartitionOptions::default() };
            match classes {
                Some(classes) => partition_dataset_classes(&ranks(classes), folds.count, options),
                None => partition_dataset(count, folds.count, options),
            }
        }
        (FoldMethod::Scikit, None, None) => k_fold(count, folds.count, shuffled),
        (FoldMethod::Scikit, Some(classes), None) => stratified_k_fold(classes, folds.count, shuffled),
        (FoldMethod::Scikit, None, Some(groups)) => group_k_fold(groups, folds.count, shuffled),
        (FoldMethod::Scikit, Some(classes), Some(groups)) => {
            stratified_group_k_fold(classes, groups, folds.count, shuffled)
        }
    }
}

/// A value of a column. Numbers sort before words.
#[derive(Clone, Debug)]
enum Value {
    Number(f64),
    Word(String),
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => a.total_cmp(b),
            (Value::Word(a), Value::Word(b)) => a.cmp(b),
            (Value::Number(_), Value::Word(_)) => Ordering::Less,
            (Value::Word(_), Value::Number(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

/// The rank of each value among the distinct ones.
fn ranks(values: &[Value]) -> Vec<i64> {
    let distinct: BTreeSet<&Value> = values.iter().collect();
    let place: BTreeMap<&Value, i64> = distinct.into_iter().zip(0..).collect();
    values.iter().map(|value| place[value]).collect()
}

/// The value of a column for each case.
fn values(items: &[Item], column: &str) -> Outcome<Vec<Value>> {
    let value = |item: &Item| match item.fields.get(column) {
        Some(Field::Number(number)) => Ok(Value::Number(*number)),
        Some(Field::Text(text)) => Ok(Value::Word(text.clone())),
        Some(Field::Numbers(_)) => Err(RecipeError::new(format!("case {}: {column} is a list of numbers", item.case))),
        None => {
            let known: BTreeSet<&str> = items.iter().flat_map(|item| item.fields.keys().map(String::as_str)).collect();
            Err(RecipeError::new(match known.contains(column) {
                true => format!("case {} has no {column}", item.case),
                false if known.is_empty() => {
                    format!("there is no column {column:?}: the data set has none; give a table")
                }
                false => unknown("column", column, &known.into_iter().collect::<Vec<_>>()),
            }))
        }
    };
    items.iter().map(value).collect()
}

/// The group of each case: a column, or the patient in the name of the case.
fn groups(items: &[Item], column: &str) -> Outcome<Vec<Value>> {
    if column != "patient" || items.iter().any(|item| item.fields.contains_key(column)) {
        return values(items, column);
    }
    let of_name = |item: &Item| {
        patient_in_name(&item.case).map(|name| Value::Word(name.to_owned())).ok_or_else(|| {
            let what =
                format!("there is no column \"patient\", and the name of case {} does not say which one", item.case);
            RecipeError::new(format!("{what} it is (names of BIDS, BraTS and DICOM do): give a table with a column"))
        })
    };
    items.iter().map(of_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(values: &[(&str, &str)]) -> Vec<Item> {
        let item = |(case, site): &(&str, &str)| Item::new(*case).with_field("site", Field::Text((*site).to_owned()));
        values.iter().map(item).collect()
    }

    #[test]
    fn a_patient_that_is_nowhere_to_be_read_is_named() {
        let text = groups(&[Item::new("spleen_10")], "patient").expect_err("refused").line();
        assert!(text.contains("spleen_10") && text.contains("give a table"), "{text}");
    }

    #[test]
    fn a_column_that_is_not_there_is_named() {
        let mut items = tagged(&[("a", "x"), ("b", "y")]);
        let text = values(&items, "sites").expect_err("refused").line();
        assert!(text.contains("site"), "{text}");
        items.push(Item::new("c"));
        let text = values(&items, "site").expect_err("refused").line();
        assert!(text.contains("case c has no site"), "{text}");
    }

    #[test]
    fn groups_stay_together_and_numbers_have_their_order() {
        let mixed = [Value::Number(10.0), Value::Word("a".into()), Value::Number(9.0), Value::Number(10.0)];
        assert_eq!(ranks(&mixed), [1, 2, 0, 1]);
        let items = tagged(&[("a", "x"), ("b", "y"), ("c", "x"), ("d", "z")]);
        let folds =
            Folds { count: 2, method: None, shuffle: None, seed: None, group: Some("site".into()), stratify: None };
        let groups = groups(&items, "site").expect("groups");
        let dealt = places(4, &folds, 0, None, Some(&groups)).expect("folds");
        assert_eq!(dealt, [vec![0, 2], vec![1, 3]]);
    }
}
