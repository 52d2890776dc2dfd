//! The steps within a step: [`InnerSteps`].

use std::collections::BTreeSet;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_image::TransformError;
use hearth_registry::{Fault, Node};

use crate::from_tables::build_transform;
use crate::nested::described_steps;
use crate::{Draw, Effect, Sample, Steps, Transform};

/// Which of the steps are applied.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Turns {
    /// A single one.
    One,
    /// Each once.
    All,
    /// Any of them, at least one.
    AtLeastOne,
    /// Any of them, or none.
    Any,
}

/// A function that applies a step to a sample with its draws.
type Apply<'a> = &'a dyn Fn(&dyn Transform, Sample, &Draw) -> Result<Vec<Sample>, TransformError>;

/// Steps within a step.
#[derive(Debug)]
pub(super) struct InnerSteps(Vec<Arc<dyn Transform>>);

impl InnerSteps {
    pub(super) fn new(steps: impl Steps) -> Self {
        Self(steps.into_steps())
    }

    /// Builds the steps of the parameter `transforms`.
    ///
    /// # Errors
    /// The fault of the first invalid table, with its path: `transforms.1.pixdim`.
    pub(super) fn from_nodes(tables: &[Node]) -> Result<Self, Fault> {
        let build = |(index, table): (usize, &Node)| {
            let step = build_transform(table).map_err(|fault| fault.within(table).under(&at(index)))?;
            Ok(Arc::from(step))
        };
        Ok(Self(tables.iter().enumerate().map(build).collect::<Result<_, Fault>>()?))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn Transform> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Whether a run of steps may include them, whichever is applied after another.
    pub(super) fn are_lazy(&self) -> bool {
        self.iter().all(|step| step.is_lazy() && !step.requires_current_data())
    }

    /// The effect of any of their choices.
    pub(super) fn effect(&self, turns: Turns) -> Effect {
        let (mut kept, mut size, mut sizing) = (Effect::Nothing, None, 0);
        for step in self.iter() {
            match step.effect() {
                Effect::Nothing => {}
                Effect::Values if kept == Effect::Moves => {}
                Effect::Values => kept = Effect::Values,
                Effect::Moves => kept = Effect::Moves,
                Effect::Regrids => return Effect::Regrids,
                Effect::Sizes { size: own, .. } => {
                    if size.get_or_insert_with(|| own.clone()) != &own {
                        return Effect::Regrids;
                    }
                    sizing += 1;
                }
            }
        }
        let certain = match turns {
            Turns::All => true,
            Turns::One | Turns::AtLeastOne => sizing == self.len(),
            Turns::Any => false,
        };
        match size {
            None => kept,
            Some(size) if certain => Effect::Sizes { key: "transforms", size },
            Some(_) => Effect::Regrids,
        }
    }

    /// Applies the steps with these indices, one after the other. Each has draws of its own, and so
    /// has each sample if an earlier one split the case.
    pub(super) fn apply(
        &self,
        sample: Sample,
        order: &[usize],
        draw: &Draw,
        apply: Apply<'_>,
    ) -> Result<Vec<Sample>, TransformError> {
        let mut samples = vec![sample];
        for (turn, index) in order.iter().enumerate() {
            let step = self.0.get(*index).ok_or_else(|| {
                TransformError::new(format!("there is no transform {index}"))
                    .expected(format!("an index below {}", self.len()))
            })?;
            let draws = draw.part(turn as u64);
            let mut next = Vec::with_capacity(samples.len());
            for (part, sample) in samples.into_iter().enumerate() {
                let made = apply(step.as_ref(), sample, &draws.part(part as u64));
                next.extend(
                    made.map_err(|error| TransformError { what: format!("{}: {}", step.name(), error.what), ..error })?,
                );
            }
            samples = next;
        }
        Ok(samples)
    }

    /// Checks the steps. Each must find its values whichever of the others were applied before it;
    /// later steps of the chain can use a value that every choice makes and none removes.
    pub(super) fn check(&self, known: &mut BTreeSet<String>, turns: Turns) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Err(Fault::at("transforms", "names no transform"));
        }
        let checked = |known: &BTreeSet<String>, index: usize, step: &dyn Transform| {
            let mut after = known.clone();
            step.check(&mut after).map_err(|fault| fault.under(&at(index)))?;
            Ok::<_, Fault>(after)
        };
        for (index, step) in self.iter().enumerate() {
            let described = step.describe();
            let reads = |step: &&serde_json::Value| step["name"] == "LoadImage" || step["name"] == "LoadRegion";
            if let Some(name) =
                described_steps(&described).into_iter().find(reads).and_then(|step| step["name"].as_str())
            {
                let what = format!("{name} reads a case, and validation and prediction omit random steps: move it");
                return Err(Fault::at(at(index), what));
            }
        }
        let after: Vec<BTreeSet<String>> =
            self.iter().enumerate().map(|(index, step)| checked(known, index, step)).collect::<Result<_, _>>()?;
        let removed = |after: &BTreeSet<String>| known.difference(after).cloned().collect::<BTreeSet<_>>();
        if turns != Turns::One {
            for (index, step) in self.iter().enumerate() {
                let others = after.iter().enumerate().filter(|(other, _)| *other != index);
                let gone: BTreeSet<String> = others.flat_map(|(_, after)| removed(after)).collect();
                checked(&known.difference(&gone).cloned().collect(), index, step)?;
            }
        }
        let gone: BTreeSet<String> = after.iter().flat_map(removed).collect();
        let made: BTreeSet<String> = match turns {
            Turns::All => after.iter().flatten().cloned().collect(),
            Turns::One | Turns::AtLeastOne => {
                let mut all = after.iter();
                let first = all.next().cloned().unwrap_or_default();
                all.fold(first, |made, after| made.intersection(after).cloned().collect())
            }
            Turns::Any => BTreeSet::new(),
        };
        known.extend(made);
        known.retain(|key| !gone.contains(key));
        Ok(())
    }

    /// Sets the device of the run. Steps of a recipe have no other owner.
    pub(super) fn place(&mut self, device: Option<&Device>) {
        self.0.iter_mut().filter_map(Arc::get_mut).for_each(|step| step.place(device));
    }
}

fn at(index: usize) -> String {
    format!("transforms.{index}")
}
