//! Prints the page of some runs to standard output: `cargo run --example page RUN... > page.html`.

use std::error::Error;
use std::path::Path;

use hearth_report::{Report, Run};

fn main() -> Result<(), Box<dyn Error>> {
    let folders = std::env::args_os().skip(1).flat_map(|folder| Run::find(Path::new(&folder)));
    let runs = folders.map(|folder| Run::read(&folder)).collect::<Result<Vec<_>, _>>()?;
    println!("{}", Report::new(runs)?.html());
    Ok(())
}
