//! Voxels without annotation: `task.ignore_label`.

use hearth_data::for_each_step;
use hearth_nn::losses::LossConfig;
use hearth_registry::{Document, Fault, Node};

use super::metric::MEAN_DICE;
use super::{Metric, Output, Recipe};

pub(super) const KEY: &str = "ignore_index";

impl Recipe {
    /// The label that losses and metrics ignore, or the channel after those of the regions.
    pub fn ignore_index(&self) -> Option<i64> {
        let label = self.learns().ignore_label()?;
        Some(if self.output() == Output::Regions { self.labels.len() as i64 } else { i64::from(label) })
    }

    /// Makes crops, the loss and the metrics ignore voxels without annotation.
    pub(super) fn leave_out_ignored(&mut self, document: &Document) -> Result<(), Fault> {
        let Some(index) = self.ignore_index() else { return Ok(()) };
        let stored = self.learns().ignore_label();
        let mut fill_in = |step: &mut Node| {
            let chooses = step.text("name").is_some_and(|name| {
                CHOOSING.iter().any(|known| name.strip_suffix('d').unwrap_or(name) == *known || name == *known)
            });
            // They see the label as it is stored, before regions become channels.
            if let Some(label) = stored.filter(|_| chooses && step.get(KEY).is_none()) {
                step.insert(KEY, Node::from(i64::from(label)));
            }
        };
        self.transforms.iter_mut().for_each(|step| for_each_step(step, &mut fill_in));
        if let Some(loss) = &self.loss {
            let name = innermost(loss.node()).text("name").unwrap_or_default().to_owned();
            let ignoring = LossConfig::new(&ignoring(loss.node().clone(), index)).map_err(|_| {
                let message = format!(
                    "{name} counts every voxel, and task.ignore_label says that some are not annotated: use DiceLoss, \
                     DiceCELoss, DiceFocalLoss or another loss with {KEY}"
                );
                document.fault("loss", message)
            })?;
            self.loss = Some(ignoring);
        }
        if let Metric::Dice { .. } = self.metric {
            let key = self.metric.key().unwrap_or(MEAN_DICE).to_owned();
            self.metric = Metric::Named { key: Some(key), metrics: self.metric.list() };
        }
        let classes = self.labels.len();
        let Metric::Named { metrics, .. } = &mut self.metric else { return Ok(()) };
        let validated = metrics.iter_mut().map(|(name, config)| (format!("metric.{name}"), config));
        for (place, config) in validated.chain(self.training.metrics.own()) {
            *config = config.with(KEY, index).map_err(|_| {
                let message = format!(
                    "{} counts every voxel, and task.ignore_label says that some are not annotated: use DiceMetric, \
                     MeanIoU, HausdorffDistanceMetric or another metric with {KEY}",
                    config.name()
                );
                document.fault(&place, message)
            })?;
            config.check_for(classes).map_err(|error| document.located(&place, error.into()))?;
        }
        Ok(())
    }
}

/// Transforms that choose crops by the classes of voxels.
const CHOOSING: [&str; 4] = ["RandCropByPosNegLabel", "RandCropByLabelClasses", "FgBgToIndices", "ClassesToIndices"];

/// The table of the innermost loss, for losses that wrap others (`DeepSupervisionLoss`).
pub(super) fn innermost(table: &Node) -> &Node {
    table.get("loss").map_or(table, innermost)
}

fn ignoring(mut table: Node, index: i64) -> Node {
    match table.get("loss").cloned() {
        Some(inner) => table.insert("loss", ignoring(inner, index)),
        None => table.insert(KEY, Node::from(index)),
    }
    table
}
