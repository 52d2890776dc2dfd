//! Epochs without a batch: [`check_batches`].

use hearth_recipe::{At, Outcome};

use crate::plan::Plan;
use crate::session::loader_options;

/// Checks that an epoch of these training cases has a batch; `norms`: the network has batch norms.
///
/// # Errors
/// Fewer cases than a batch, of which incomplete ones are left out.
pub fn check_batches(plan: &Plan, cases: usize, norms: bool) -> Outcome {
    let options = loader_options(plan, norms);
    if cases == 0 || options.batches(cases) > 0 {
        return Ok(());
    }
    let why = if options.drop_last {
        "incomplete batches"
    } else {
        "a batch of a single crop, which batch norms cannot use,"
    };
    let what = format!(
        "an epoch has no batch, so that nothing is learned: it has fewer cases ({cases}) than training.batch_size = {}, and \
         {why} are left out; give a smaller batch_size, or drop_last = false",
        options.batch_size
    );
    Err(plan.document.error_at("training.drop_last", what))
}
