//! An ensemble measured on labelled cases, on the network's grid.

use hearth_data::Item;
use hearth_train::Post;

use crate::commands::evaluate::{Compared, Found, measure_each};
use crate::error::{Failure, Outcome};
use crate::run::{Empty, Trained};

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
    measure_each(trained, items, empty, |item| {
        let (pred, label) = trained.compared(item)?;
        let finish = |(of_pred, of_label): &(Vec<Post>, Vec<Post>)| {
            let pred = Post::finish(of_pred, pred.clone(), &item.case)?.data.unsqueeze_dim(0);
            Ok([pred, Post::finish(of_label, label.clone(), &item.case)?.data.unsqueeze_dim(0)])
        };
        let pairs: Result<Vec<_>, hearth_engine::BoxError> = posts.iter().map(finish).collect();
        let pairs = pairs.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Compared { spacing: pred.spacing(), pairs })
    })
}
