//! `hearth devices`.

use hearth_train::device::{self, DeviceInfo};

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
    devices.iter().for_each(|device| out!("{}", line(device, width)));
    Ok(())
}

/// The line for a device; words are padded to the width of the longest.
fn line(device: &DeviceInfo, width: usize) -> String {
    let DeviceInfo { word, name, feature, .. } = device;
    let pad = " ".repeat(width - word.len());
    let memory = device.memory.map_or_else(String::new, |memory| format!(", {}", bytes(memory)));
    if device.available {
        format!("{}{pad}  {name}{memory}", bold(word))
    } else if let Some(missing) = &device.missing {
        format!("{}{pad}  {name}{memory}: cannot be used. {missing}", bold(word))
    } else if device.compiled_in {
        dim(&format!("{word}{pad}  {name}: none found on this machine"))
    } else {
        dim(&format!("{word}{pad}  {name}: not in this build; build with --features {feature}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_cannot_be_used_says_what_is_missing() {
        let mut card = DeviceInfo {
            word: "cuda:0".into(),
            name: "H100".into(),
            feature: "cuda",
            compiled_in: true,
            available: false,
            missing: Some("no libdevice".into()),
            memory: Some(1 << 30),
        };
        assert!(card.is_here());
        let said = line(&card, 8);
        assert!(said.contains("H100, 1.0 GiB: cannot be used. no libdevice"), "{said}");
        card.missing = None;
        assert!(!card.is_here());
        assert!(line(&card, 8).contains("none found on this machine"));
        card.available = true;
        assert!(line(&card, 8).ends_with("  H100, 1.0 GiB"));
    }
}
