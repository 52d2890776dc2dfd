//! `hearth devices`.

use hearth_train::device;

use crate::error::Outcome;
use crate::out;
use crate::terminal::{bold, bytes, dim};

/// Arguments of `hearth devices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print a JSON list
    #[arg(long)]
    json: bool,
}

/// Lists the devices.
pub fn run(args: &Args) -> Outcome {
    let devices = device::list();
    if args.json {
        out!("{}", serde_json::to_string_pretty(&devices)?);
        return Ok(());
    }
    let width = devices.iter().map(|device| device.word.len()).max().unwrap_or(0);
    for device in devices {
        let pad = " ".repeat(width - device.word.len());
        let memory = device.memory.map_or_else(String::new, |memory| format!(", {}", bytes(memory)));
        if device.available {
            out!("{}{pad}  {}{memory}", bold(&device.word), device.name);
        } else if let Some(missing) = device.missing {
            out!("{}{pad}  {}{memory}: cannot be used. {missing}", bold(&device.word), device.name);
        } else if device.compiled_in {
            out!("{}", dim(&format!("{}{pad}  {}: none found on this machine", device.word, device.name)));
        } else {
            let how = format!("not in this build; build with --features {}", device.feature);
            out!("{}", dim(&format!("{}{pad}  {}: {how}", device.word, device.name)));
        }
    }
    Ok(())
}
