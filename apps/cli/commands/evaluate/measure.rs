//! Compares predictions with labels, on the network's grid or the images' own, on one or several ranks.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_data::{DataLoader, Item, LoaderOptions};
use hearth_engine::{Engine, Metrics};
use hearth_nn::losses::one_hot;
use hearth_nn::metrics::ClassConfusion;
use hearth_train::{CaseRow, Floats, Post, Ranks, SharedCases};
use serde::{Deserialize, Serialize};

use super::Args;
use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::recipe::Output;
use crate::run::{
    CONFUSION, Empty, PassProgress, Penalties, Plan, as_predicted, evaluated, evaluator, gathered, handlers, plugins,
};
use crate::sharing::{own, prepared};
use hearth_models::run::Trained;
use hearth_models::run::segment::Wanted;

/// The values of a metric over all cases.
pub struct Found {
    pub value: f64,
    pub rows: Vec<CaseRow>,
    /// By class: how often the diagonal replaced a distance to an empty region.
    pub penalties: Vec<usize>,
}

/// All measured values.
pub struct All {
    /// Each metric of the recipe.
    pub metrics: Vec<Found>,
    /// For exclusive classes: `counts[truth][prediction]`.
    pub confusion: Option<Vec<Vec<u64>>>,
}

impl All {
    /// Combines the metrics with the confusion from its rows, if the classes are exclusive.
    fn new<'a>(plan: &Plan, metrics: Vec<Found>, rows: impl IntoIterator<Item = &'a [f32]>) -> Self {
        let confusion = plan.exclusive_classes().map(|classes| ClassConfusion::of_rows(classes, rows));
        Self { metrics, confusion }
    }
}

/// Measures each metric and its rows on the network's grid, as validation does. Handlers with `engine =
/// "validation"` run and write into `files`; of several runs, those of the first.
pub fn on_the_networks_grid(
    trained: Trained,
    items: Vec<Item>,
    files: &Path,
    args: &Args,
    ranks: Option<&Ranks>,
) -> Outcome<All> {
    let empty = args.empty.rule();
    let Trained { plan, network, checkpoint, inferer, ensemble, .. } = trained;
    let shared = ranks.map(|ranks| SharedCases { ranks: ranks.clone(), cases: items.len() });
    let dataset = hearth_data::TransformDataset::new(evaluated(&items, ranks), plan.validation.clone())?;
    let loader = DataLoader::new(Arc::new(dataset), LoaderOptions { batch_size: 1, ..LoaderOptions::default() })?;
    let listen = |engine: &mut Engine| -> Outcome {
        engine.add(PassProgress::new("evaluated", plan.progress))?;
        let plugins = plugins::load_for_evaluation(&plan, &args.plugins)?;
        Ok(handlers::attach(&plan, &plugins, files, engine)?)
    };
    let Some(ensemble) = ensemble else {
        let (mut evaluator, penalties) = evaluator(&plan, loader, inferer, empty, shared)?;
        listen(evaluator.engine_mut())?;
        let values = evaluator.run(&network, 1).while_doing(|| format!("evaluating checkpoint {checkpoint}"))?;
        let rows = evaluator.rows_of(CONFUSION).unwrap_or_default().iter().map(|row| &row.values[..]);
        let found = found(&plan, evaluator.engine(), &values, penalties, |name| evaluator.rows_of(name));
        return Ok(All::new(&plan, found, rows));
    };
    let (mut evaluator, penalties) = ensemble.evaluator(&plan, network, loader, inferer, empty, shared)?;
    listen(evaluator.engine_mut())?;
    let values = evaluator.run(1).while_doing(|| "evaluating the runs as one".to_owned())?;
    let rows = evaluator.rows_of(CONFUSION).unwrap_or_default().iter().map(|row| &row.values[..]);
    let found = found(&plan, evaluator.engine(), &values, penalties, |name| evaluator.rows_of(name));
    Ok(All::new(&plan, found, rows))
}

/// The values that an evaluator measured; reports handlers that failed.
fn found<'a>(
    plan: &Plan,
    engine: &Engine,
    values: &Metrics,
    penalties: Vec<Penalties>,
    rows_of: impl Fn(&str) -> Option<&'a [CaseRow]>,
) -> Vec<Found> {
    handlers::failures(engine).iter().for_each(|failure| note!("{failure}"));
    let of = |((name, _), penalties): ((String, _), Penalties)| Found {
        value: values.get(&name).copied().unwrap_or(f64::NAN),
        rows: rows_of(&name).unwrap_or_default().to_vec(),
        penalties: penalties.counts(),
    };
    plan.recipe.metric.list().into_iter().zip(penalties).map(of).collect()
}

/// Measures what `predict` writes: each prediction on the grid of its image, compared with the label on
/// the grid of its file.
pub fn on_original_grids(trained: &Trained, items: &[Item], empty: Empty, ranks: Option<&Ranks>) -> Outcome<All> {
    let (recipe, post) = (&trained.plan.recipe, trained.plan.post_label()?);
    // The confusion gets the same inputs as the metrics.
    let count = recipe.metric.list().len() + 1;
    measure_each(trained, items, empty, ranks, |item| {
        let case = &item.case;
        let found = trained.segment(as_predicted(recipe, item.sample()), Wanted::default())?;
        let mut labels = trained.plan.label.run_deterministic(item.sample())?;
        let mut sample = labels.pop().ok_or_else(|| Failure::new("it has no label"))?;
        let label = sample.take_image("label")?.to_device(&trained.plan.device);
        if label.shape() != found.image.shape() {
            let (label, image) = (label.shape(), found.image.shape());
            return Err(Failure::new(format!("the label has {label:?} voxels, its image {image:?}")));
        }
        let spacing = label.spacing();
        let label = Post::finish(&post, label, case).map_err(|error| Failure::new(error.to_string()))?;
        let label: Tensor<5> = label.data.unsqueeze_dim(0);
        let mut pred: Tensor<5> = found.image.data.unsqueeze_dim(0);
        if found.output == Output::Labels && label.dims()[1] > 1 {
            pred = one_hot(pred, recipe.labels.len());
        }
        Ok(Compared { spacing, pairs: vec![[pred, label]; count] })
    })
}

/// A prediction and its label, as input to each metric.
struct Compared {
    /// Millimetres per voxel.
    pub spacing: [f64; 3],
    /// Prediction and label for each metric of the recipe.
    pub pairs: Vec<[Tensor<5>; 2]>,
}

/// The values of one metric for one case.
#[derive(Clone, Default, Serialize, Deserialize)]
struct OfCase {
    /// The values in the table, row by row.
    shown: Vec<Floats>,
    /// The metric's own rows.
    rows: Vec<Floats>,
}

/// A case's place in the list, and the values of each metric.
type Placed = (usize, Vec<OfCase>);

/// Measures each metric of a recipe and its rows, over cases that `compare` predicts.
fn measure_each(
    trained: &Trained,
    items: &[Item],
    empty: Empty,
    ranks: Option<&Ranks>,
    compare: impl Fn(&Item) -> Outcome<Compared>,
) -> Outcome<All> {
    let list = trained.plan.recipe.metric.list();
    let mut built =
        list.iter().map(|(name, config)| trained.plan.measuring(name, config, empty)).collect::<Result<Vec<_>, _>>()?;
    if let Some(confusion) = trained.plan.confusion() {
        built.push((Box::new(confusion), Penalties::default()));
    }
    let (mut metrics, penalties): (Vec<_>, Vec<_>) = built.into_iter().unzip();
    let mut measure = || -> Outcome<Vec<Placed>> {
        let mut done = Vec::new();
        for place in own(ranks, items.len()) {
            let item = &items[place];
            let case = &item.case;
            note!("case {} of {}: {case}", place + 1, items.len());
            let doing = || format!("case {case}");
            let Compared { spacing, pairs } = compare(item).while_doing(doing)?;
            let mut of_case = Vec::new();
            for (metric, [pred, label]) in metrics.iter_mut().zip(&pairs) {
                let before = metric.rows().len();
                metric.update_spaced(pred, label, &[spacing]).while_doing(doing)?;
                let new = &metric.rows()[before..];
                let shown = new.iter().map(|row| Floats(metric.values_of(row))).collect();
                of_case.push(OfCase { shown, rows: new.iter().cloned().map(Floats).collect() });
            }
            done.push((place, of_case));
        }
        Ok(done)
    };
    let measured = measure();
    let (mut done, mut counts) = (prepared(ranks, measured)?, penalties.iter().map(Penalties::counts).collect());
    if let Some(ranks) = ranks {
        (done, counts) = together(ranks, done, counts)?;
        for (place, metric) in metrics.iter_mut().enumerate() {
            metric.reset();
            metric.merge(done.iter().flat_map(|(_, of)| &of[place].rows).map(|row| row.0.clone()).collect())?;
        }
    }
    let mut found = Vec::new();
    for (place, (metric, penalties)) in metrics.iter().zip(counts).enumerate() {
        let shown = done.iter().flat_map(|(case, of)| of[place].shown.iter().map(move |values| (*case, values)));
        let row =
            |(case, values): (usize, &Floats)| CaseRow { case: items[case].case.clone(), values: values.0.clone() };
        let rows = shown.map(row).collect();
        found.push(Found { value: f64::from(metric.aggregate()?.scalar()), rows, penalties });
    }
    let confusion = found.split_off(list.len());
    let rows = confusion.iter().flat_map(|found| &found.rows).map(|row| &row.values[..]);
    Ok(All::new(&trained.plan, found, rows))
}

/// Combines the cases of all ranks in their order, and sums their counts.
fn together(ranks: &Ranks, done: Vec<Placed>, counts: Vec<Vec<usize>>) -> Outcome<(Vec<Placed>, Vec<Vec<usize>>)> {
    let (mut all, mut sums) = (Vec::new(), vec![Vec::new(); counts.len()]);
    for (done, counts) in gathered(ranks, "the other ranks' cases", &(done, counts))? {
        all.extend(done);
        for (sum, counts) in sums.iter_mut().zip::<Vec<Vec<usize>>>(counts) {
            sum.resize(counts.len().max(sum.len()), 0);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    all.sort_by_key(|(place, _)| *place);
    Ok((all, sums))
}
