//! `failed.csv`: the failed cases of a job, with reasons.

use std::path::Path;

use hearth_recipe::{Outcome, notice};
use hearth_run::outputs::{Outputs, remove_result};

use crate::job::in_the_way::in_the_way;

/// The name of the list.
pub(crate) const FAILED: &str = "failed.csv";

/// Lists all failed cases with reasons; without any, removes the list of an earlier call. A file of
/// another program stays, and so does a list that was changed.
pub(crate) fn list_failed(
    out: &Path,
    command: &str,
    outputs: &Outputs,
    failed: &[(usize, String, String)],
    things: &str,
) -> Outcome {
    let path = out.join(FAILED);
    if let Some(why) = in_the_way(&path, command)? {
        if !failed.is_empty() {
            notice!("{} {why}: the {things} that failed are not listed there", path.display());
        }
        return Ok(());
    }
    if failed.is_empty() {
        return remove_result(&path);
    }
    let line = |why: &str| why.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let rows = failed.iter().map(|(_, name, why)| row([name.clone(), line(why)]));
    outputs.write(&path, "image,why\n".to_owned() + &rows.collect::<String>())?;
    notice!("{} lists the {things} that failed", path.display());
    Ok(())
}

/// A row of a CSV table.
pub(crate) fn row(values: impl IntoIterator<Item = String>) -> String {
    hearth_files::csv_line(values) + "\n"
}
