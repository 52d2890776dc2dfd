//! An ensemble measured on labelled cases, on the network's grid.

use burn::tensor::Tensor;
use hearth_data::Item;
use hearth_train::{CaseRow, Post};

use crate::commands::evaluate::Found;
use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::run::{Empty, Trained, measuring};

/// The value of each metric and its rows, as validation measures one network.
pub(in crate::commands) fn on_the_networks_grid(
    trained: &Trained,
    items: &[Item],
    empty: Empty,
) -> Outcome<Vec<Found>> {
    let recipe = &trained.plan.recipe;
    let (task, list) = (recipe.learns(), recipe.metric.list());
    let posts: Vec<(Vec<Post>, Vec<Post>)> =
        list.iter().map(|(_, config)| task.metric_post(config, recipe.labels.len())).collect();
    let built = list.iter().map(|(_, config)| measuring(config, empty)).collect::<Result<Vec<_>, _>>()?;
    let (mut metrics, penalties): (Vec<_>, Vec<_>) = built.into_iter().unzip();
    let mut rows: Vec<Vec<CaseRow>> = vec![Vec::new(); metrics.len()];
    for (done, item) in items.iter().enumerate() {
        let case = &item.case;
        note!("case {} of {}: {case}", done + 1, items.len());
        let doing = || format!("case {case}");
        let (pred, label) = trained.compared(item).while_doing(doing)?;
        let spacing = pred.spacing();
        for ((metric, rows), (of_pred, of_label)) in metrics.iter_mut().zip(&mut rows).zip(&posts) {
            let wrong = |error: hearth_engine::BoxError| Failure::new(error.to_string());
            let pred: Tensor<5> = Post::finish(of_pred, pred.clone(), case).map_err(wrong)?.data.unsqueeze_dim(0);
            let label: Tensor<5> = Post::finish(of_label, label.clone(), case).map_err(wrong)?.data.unsqueeze_dim(0);
            let before = metric.rows().len();
            metric.update_spaced(&pred, &label, &[spacing]).while_doing(doing)?;
            let new: Vec<Vec<f32>> = metric.rows().iter().skip(before).map(|row| metric.values_of(row)).collect();
            rows.extend(new.into_iter().map(|values| CaseRow { case: case.clone(), values }));
        }
    }
    let values =
        metrics.iter().map(|metric| Ok(f64::from(metric.aggregate()?.scalar()))).collect::<Outcome<Vec<f64>>>()?;
    let found = values.into_iter().zip(rows).zip(penalties);
    Ok(found.map(|((value, rows), penalties)| Found { value, rows, penalties }).collect())
}
