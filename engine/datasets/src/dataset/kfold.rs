//! Folds as in scikit-learn: `KFold`, `StratifiedKFold`, `GroupKFold` and `StratifiedGroupKFold`.
//!
//! Each function returns the indices that validate in each fold, ascending; an index is in exactly
//! one fold. A seed shuffles as `shuffle=True, random_state=seed` does.

use crate::DataError;
use crate::numpy::RandomState;

/// `KFold`: consecutive blocks, the first ones longer by one if the number is not divisible.
///
/// ```
/// let folds = hearth_datasets::k_fold(5, 2, None)?;
/// assert_eq!(folds, [vec![0, 1, 2], vec![3, 4]]); // the cases that validate in each fold
/// # Ok::<(), hearth_datasets::DataError>(())
/// ```
///
/// # Errors
/// If there are fewer than 2 folds, or fewer cases than folds.
pub fn k_fold(n: usize, folds: usize, seed: Option<u32>) -> Result<Vec<Vec<usize>>, DataError> {
    check(folds, n, "cases")?;
    let mut order: Vec<usize> = (0..n).collect();
    if let Some(seed) = seed {
        RandomState::new(seed).shuffle(&mut order);
    }
    Ok(blocks(&order, folds).map(sorted).collect())
}

/// `StratifiedKFold`: each fold has the same share of each class, as far as the numbers allow.
/// `classes` has one entry for each case.
///
/// # Errors
/// Those of [`k_fold`], and if every class has fewer cases than there are folds.
pub fn stratified_k_fold<C: Ord>(classes: &[C], folds: usize, seed: Option<u32>) -> Result<Vec<Vec<usize>>, DataError> {
    check(folds, classes.len(), "cases")?;
    // Classes in the order in which they appear.
    let (by_value, _) = unique(classes);
    let mut seen: Vec<usize> = Vec::new();
    let mut encoded = Vec::with_capacity(by_value.len());
    for class in by_value {
        let place = seen.iter().position(|known| *known == class).unwrap_or_else(|| {
            seen.push(class);
            seen.len() - 1
        });
        encoded.push(place);
    }
    let counts = counts(&encoded, seen.len());
    check_classes(&counts, folds)?;
    let mut order = encoded.clone();
    order.sort_unstable();
    let mut random = seed.map(RandomState::new);
    let mut fold_of = vec![0; encoded.len()];
    for class in 0..seen.len() {
        let share = |fold: usize| order.iter().skip(fold).step_by(folds).filter(|c| **c == class).count();
        let mut dealt: Vec<usize> = (0..folds).flat_map(|fold| std::iter::repeat_n(fold, share(fold))).collect();
        if let Some(random) = &mut random {
            random.shuffle(&mut dealt);
        }
        let members = encoded.iter().enumerate().filter(|(_, c)| **c == class).map(|(index, _)| index);
        members.zip(dealt).for_each(|(index, fold)| fold_of[index] = fold);
    }
    Ok(collected(&fold_of, folds))
}

/// `GroupKFold`: all cases of a group are in one fold. Groups are assigned by decreasing size, each
/// to the fold with the fewest cases; with a seed, shuffled groups are cut into blocks. `groups`
/// has one entry for each case.
///
/// # Errors
/// If there are fewer than 2 folds, or fewer groups than folds.
pub fn group_k_fold<G: Ord>(groups: &[G], folds: usize, seed: Option<u32>) -> Result<Vec<Vec<usize>>, DataError> {
    let (group_of, number) = unique(groups);
    check(folds, number, "groups")?;
    let mut fold_of_group = vec![0; number];
    if let Some(seed) = seed {
        let mut order: Vec<usize> = (0..number).collect();
        RandomState::new(seed).shuffle(&mut order);
        for (fold, block) in blocks(&order, folds).enumerate() {
            block.iter().for_each(|group| fold_of_group[*group] = fold);
        }
    } else {
        let sizes = counts(&group_of, number);
        let mut order: Vec<usize> = (0..number).collect();
        // A stable sort, reversed as a whole: the last of equal elements is first.
        order.sort_by_key(|group| sizes[*group]);
        let mut filled = vec![0; folds];
        for group in order.into_iter().rev() {
            let lightest = (0..folds).min_by_key(|fold| filled[*fold]).unwrap_or_default();
            filled[lightest] += sizes[group];
            fold_of_group[group] = lightest;
        }
    }
    let fold_of: Vec<usize> = group_of.into_iter().map(|group| fold_of_group[group]).collect();
    Ok(collected(&fold_of, folds))
}

/// `StratifiedGroupKFold`: all cases of a group are in one fold, and a greedy search makes the
/// folds' shares of the classes as equal as it can.
///
/// # Errors
/// Those of [`group_k_fold`] and [`stratified_k_fold`], and if the lists differ in length.
pub fn stratified_group_k_fold<C: Ord, G: Ord>(
    classes: &[C],
    groups: &[G],
    folds: usize,
    seed: Option<u32>,
) -> Result<Vec<Vec<usize>>, DataError> {
    if classes.len() != groups.len() {
        let (classes, groups) = (classes.len(), groups.len());
        return Err(DataError::Option(format!(
            "{classes} classes for {groups} groups; give one of each for each case"
        )));
    }
    let (class_of, number_of_classes) = unique(classes);
    let (mut group_of, number) = unique(groups);
    check(folds, number, "groups")?;
    let class_counts = counts(&class_of, number_of_classes);
    check_classes(&class_counts, folds)?;
    if let Some(seed) = seed {
        let mut order: Vec<usize> = (0..number).collect();
        RandomState::new(seed).shuffle(&mut order);
        let mut place = vec![0; number];
        order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        group_of.iter_mut().for_each(|group| *group = place[*group]);
    }
    let mut of_group = vec![vec![0.0; number_of_classes]; number];
    for (class, group) in class_of.iter().zip(&group_of) {
        of_group[*group][*class] += 1.0;
    }
    let spread: Vec<f64> = of_group.iter().map(|row| deviation(row.iter().copied())).collect();
    let mut order: Vec<usize> = (0..number).collect();
    order.sort_by(|a, b| spread[*b].total_cmp(&spread[*a]));
    let mut in_fold = vec![vec![0.0; number_of_classes]; folds];
    let mut fold_of_group = vec![0; number];
    for group in order {
        let best = best_fold(&mut in_fold, &class_counts, &of_group[group]);
        in_fold[best].iter_mut().zip(&of_group[group]).for_each(|(sum, count)| *sum += count);
        fold_of_group[group] = best;
    }
    let fold_of: Vec<usize> = group_of.into_iter().map(|group| fold_of_group[group]).collect();
    Ok(collected(&fold_of, folds))
}

/// The fold for which the classes' shares differ least over the folds; of equal ones that with the
/// fewest cases.
fn best_fold(in_fold: &mut [Vec<f64>], class_counts: &[usize], added: &[f64]) -> usize {
    let (mut best, mut least, mut fewest) = (0, f64::INFINITY, f64::INFINITY);
    for fold in 0..in_fold.len() {
        in_fold[fold].iter_mut().zip(added).for_each(|(sum, count)| *sum += count);
        let of_class =
            |class: usize| deviation(in_fold.iter().map(|counts| counts[class] / class_counts[class] as f64));
        let mean = (0..class_counts.len()).map(of_class).sum::<f64>() / class_counts.len() as f64;
        in_fold[fold].iter_mut().zip(added).for_each(|(sum, count)| *sum -= count);
        let cases: f64 = in_fold[fold].iter().sum();
        // numpy's isclose.
        let close = least.is_finite() && (mean - least).abs() <= 1e-8 + 1e-5 * least.abs();
        if mean < least || (close && cases < fewest) {
            (best, least, fewest) = (fold, mean, cases);
        }
    }
    best
}

/// The standard deviation, divided by the number of values.
fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / count).sqrt()
}

fn check(folds: usize, n: usize, what: &str) -> Result<(), DataError> {
    if folds < 2 {
        return Err(DataError::Option(format!("{folds} folds: give 2 or more")));
    }
    if n < folds {
        return Err(DataError::Option(format!("{n} {what} cannot be dealt to {folds} folds: give {n} folds or fewer")));
    }
    Ok(())
}

fn check_classes(counts: &[usize], folds: usize) -> Result<(), DataError> {
    if counts.iter().all(|count| *count < folds) {
        let most = counts.iter().max().copied().unwrap_or_default();
        return Err(DataError::Option(format!(
            "no class has a case for each of {folds} folds: the most frequent one has {most}"
        )));
    }
    Ok(())
}

/// Returns, for each value, its index among the sorted distinct values, and the number of distinct
/// values.
fn unique<T: Ord>(values: &[T]) -> (Vec<usize>, usize) {
    let mut distinct: Vec<&T> = values.iter().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let place = |value: &T| distinct.partition_point(|known| *known < value);
    (values.iter().map(place).collect(), distinct.len())
}

fn counts(places: &[usize], number: usize) -> Vec<usize> {
    let mut counts = vec![0; number];
    places.iter().for_each(|place| counts[*place] += 1);
    counts
}

/// Consecutive blocks; the first ones are longer by one if the number is not divisible.
fn blocks(order: &[usize], folds: usize) -> impl Iterator<Item = &[usize]> {
    let (each, longer) = (order.len() / folds, order.len() % folds);
    (0..folds).scan(0, move |start, fold| {
        let from = *start;
        *start += each + usize::from(fold < longer);
        Some(&order[from..*start])
    })
}

fn sorted(block: &[usize]) -> Vec<usize> {
    let mut block = block.to_vec();
    block.sort_unstable();
    block
}

fn collected(fold_of: &[usize], folds: usize) -> Vec<Vec<usize>> {
    let members = |fold: usize| fold_of.iter().enumerate().filter(move |(_, of)| **of == fold).map(|(index, _)| index);
    (0..folds).map(|fold| members(fold).collect()).collect()
}
