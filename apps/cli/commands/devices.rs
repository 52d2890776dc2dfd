//! `hearth devices`.

use hearth_train::device::{self, DeviceInfo};

use crate::cudnn::Found;
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

/// Lists the devices; in text, with a line about the library of a vendor.
pub fn run(args: &Args) -> Outcome {
    let devices = device::list();
    if args.json {
        out!("{}", serde_json::to_string_pretty(&devices)?);
        return Ok(());
    }
    let width = devices.iter().map(|device| device.word.len()).max().unwrap_or(0);
    devices.iter().for_each(|device| out!("{}", line(device, width)));
    if let Some(cudnn) = Found::for_devices(&devices) {
        out!("{:width$}  {}", "cuDNN", cudnn.line);
    }
    Ok(())
}

/// The line for a device; words are padded to the width of the longest.
fn line(device: &DeviceInfo, width: usize) -> String {
    let DeviceInfo { word, name, feature, .. } = device;
    let pad = " ".repeat(width - word.len());
    let memory = device.memory.map_or_else(String::new, |memory| format!(", {}", bytes(memory)));
    if device.available {
        format!("{}{pad}  {name}{memory}{}", bold(word), state(device))
    } else if let Some(missing) = &device.missing {
        format!("{}{pad}  {name}{memory}: cannot be used. {missing}", bold(word))
    } else if device.compiled_in {
        dim(&format!("{word}{pad}  {name}: none found on this machine"))
    } else {
        dim(&format!("{word}{pad}  {name}: not in this build; build with --features {feature}"))
    }
}

/// What is free on a GPU, and how the system numbers it; empty for a CPU.
fn state(device: &DeviceInfo) -> String {
    let parts = [
        device.free_memory.map(|free| format!("{} free", bytes(free))),
        device.utilisation.map(|percent| format!("{percent:.0} % busy")),
        device.pci.as_ref().map(|address| format!("PCI {address}")),
        device.render_minor.map(|minor| format!("renderD{minor}")),
        device.kfd_node.map(|node| format!("KFD node {node}")),
        device.numa_node.map(|node| format!("NUMA node {node}")),
    ];
    parts.into_iter().flatten().map(|part| format!(", {part}")).collect()
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
            ..DeviceInfo::default()
        };
        assert!(card.is_here());
        let said = line(&card, 8);
        assert!(said.contains("H100, 1.0 GiB: cannot be used. no libdevice"), "{said}");
        card.missing = None;
        assert!(!card.is_here());
        assert!(line(&card, 8).contains("none found on this machine"));
        card.available = true;
        assert!(line(&card, 8).ends_with("  H100, 1.0 GiB"));
        card.free_memory = Some(1 << 29);
        card.utilisation = Some(3.4);
        card.pci = Some("0000:01:00.0".into());
        (card.render_minor, card.numa_node) = (Some(128), Some(0));
        let all = "H100, 1.0 GiB, 512.0 MiB free, 3 % busy, PCI 0000:01:00.0, renderD128, NUMA node 0";
        assert!(line(&card, 8).ends_with(all), "{}", line(&card, 8));
    }
}
