//! Checks before the caches of a training are filled whether they fit: [`check_caches`].

use hearth_data::{Item, Pipeline, Sample, Storage};
use hearth_kernels::host::is_host;
use hearth_machine::readable;
use hearth_registry::counted;

use crate::cases::Cases;
use crate::dataset::{Use, cache_run};
use crate::plan::Plan;
use hearth_recipe::{At, Outcome};

/// Fails if the training cases, the validation cases, or both together take more memory than the
/// cache may use. Each kind is estimated by its first case, as a lower bound if values are stored
/// in fewer bits.
///
/// # Errors
/// The estimated size, the limit, and what fits; or the error of a first case.
pub fn check_caches(plan: &Plan, cases: &Cases) -> Outcome {
    let cache = &plan.recipe.data.cache;
    let Some(limit) = cache.limit(&cache_run(plan, Use::Training, 0)) else { return Ok(()) };
    let narrow = match cache.storage() {
        Storage::F32 => 1,
        // Labels take one byte.
        Storage::F16 | Storage::Exact => 4,
    };
    let each = |items: &[Item], pipeline: &Pipeline| -> Outcome<(u64, u64)> {
        let count = cache.kept(items.len()) as u64;
        let Some(first) = items.first().filter(|_| count > 0) else { return Ok((0, 0)) };
        let samples = pipeline.run_deterministic(first.sample())?;
        Ok((count, samples.iter().map(Sample::bytes).sum::<usize>() as u64 / narrow))
    };
    let (train, of_train) = each(&cases.training, &plan.training)?;
    let (validate, of_validation) = each(&cases.validation, &plan.validation)?;
    let total = (train.saturating_mul(of_train)).saturating_add(validate.saturating_mul(of_validation));
    if total <= limit {
        return Ok(());
    }
    let share = (limit as f64 / total as f64 * 100.0).floor() / 100.0;
    let part = |count: u64, each: u64, does: &str| {
        let does = if count == 1 { format!("{does}s") } else { does.to_owned() };
        format!("{} that {does} ({} each)", counted(count as usize, "case"), readable(each))
    };
    let on_card = cache.on_device() && !is_host(&plan.device);
    let elsewhere = if on_card { "in the host's memory (`device = \"host\"`) or " } else { "" };
    let message = format!(
        "the cache would take about {} for {} and {}, but only {} may be used; keep fewer (`rate = {share}`), as many \
         as fit (`rate = \"auto\"`), or keep them {elsewhere}on disk (`kind = \"persistent\"`)",
        readable(total),
        part(train, of_train, "train"),
        part(validate, of_validation, "validate"),
        readable(limit)
    );
    Err(plan.document.error_at("data.cache", message))
}
