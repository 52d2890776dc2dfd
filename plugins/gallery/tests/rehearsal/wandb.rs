//! The plugin in a rehearsed run, without a host.

use hearth_gallery::wandb::{Options, Wandb};
use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Event, Metrics, PluginOptions};

/// A run of two epochs, and the last file that it attached. `note` is a part of its recipe.
pub fn rehearse(note: &str) -> (Rehearsal<Wandb>, Vec<u8>) {
    let mut run = Rehearsal::new(Wandb(Options::from_toml("project = 'spleen'").expect("valid options")));
    run.host.run_info = format!(r#"{{"recipe": {{"network": {{"name": "UNet"}}, "note": "{note}"}}}}"#);
    run.host.learning_rate = Some(0.125);
    run.host.outputs.insert("mean_loss".into(), 0.75);
    run.host.kept.insert("id".into(), b"0123abcd".to_vec());
    run.metrics = [0.5, f64::NAN].map(|dice| Metrics::from([("mean_dice".to_owned(), dice)])).to_vec();
    run.epochs(2, 1).expect("no error");
    let log = last(&run);
    (run, log)
}

fn last(run: &Rehearsal<Wandb>) -> Vec<u8> {
    let attached = run.host.calls.iter().rev().find_map(|call| match call {
        Call::Attach(name, content) if name == "offline-run-0123abcd/run-0123abcd.wandb" => Some(content.clone()),
        _ => None,
    });
    attached.expect("a file")
}

/// The records of a log, by the description of LevelDB's format: blocks of 32 KiB with parts of records, each with its
/// length and whether it is whole, the first, a middle or the last one.
fn records(log: &[u8]) -> Vec<Vec<u8>> {
    assert_eq!(log[..7], *b":W&B\xe1\xbe\x00");
    let (mut at, mut records, mut open) = (7, Vec::new(), Vec::new());
    while at < log.len() {
        if (1 << 15) - at % (1 << 15) < 7 {
            at = (at / (1 << 15) + 1) << 15;
        }
        let (length, kind) = (usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]])), log[at + 6]);
        assert_eq!(kind == 1 || kind == 2, open.is_empty(), "a record begins or continues");
        open.extend(&log[at + 7..][..length]);
        at += 7 + length;
        assert!(at % (1 << 15) == 0 || at <= log.len(), "a part ends with its block");
        if kind == 1 || kind == 4 {
            records.push(std::mem::take(&mut open));
        }
    }
    assert!(open.is_empty());
    records
}

fn contains(record: &[u8], text: &str) -> bool {
    record.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_run_its_epochs_and_its_end_are_records() {
    let (mut run, log) = rehearse("");
    let all = records(&log);
    // The tags of `run`, `summary`, `history` and `exit` in a `Record`.
    let tags: Vec<&[u8]> = all.iter().map(|record| &record[..if record[0] & 128 > 0 { 2 } else { 1 }]).collect();
    assert_eq!(tags, [&[0x8a, 1][..], &[0x1a], &[0x12], &[0x1a], &[0x12], &[0x92, 1]]);
    assert!(["0123abcd", "spleen", "network", "{\"name\":\"UNet\"}"].iter().all(|text| contains(&all[0], text)));
    assert!(["mean_dice", "0.5", "lr", "0.125", "loss", "0.75"].iter().all(|text| contains(&all[2], text)));
    assert!(all[2].ends_with(&[0x12, 2, 8, 1]) && all[4].ends_with(&[0x12, 2, 8, 2]), "the steps");
    assert_eq!(all[5], [0x92, 1, 2, 8, 0]);
    // The log of a checkpoint has no end, and a resumed run continues it.
    run.metrics.push(Metrics::from([("mean_dice".to_owned(), 0.875)]));
    run.epochs(3, 1).expect("no error");
    assert_eq!(records(&last(&run)).len(), 8);
    run.fire(Event::ExceptionRaised).expect("no error");
    assert_eq!(records(&last(&run)).last().expect("an end"), &[0x92, 1, 2, 8, 1]);
}

#[test]
fn a_record_may_be_longer_than_a_block() {
    for length in [100, 32_600, 32_650, 32_700, 32_768, 70_000] {
        let (_, log) = rehearse(&"x".repeat(length));
        let all = records(&log);
        assert_eq!(all.len(), 6, "{length}");
        assert!(contains(&all[0], &"x".repeat(length)), "{length}");
    }
}

/// The checksum of a part covers its kind and its content: CRC-32, whose value of "123456789" is known.
#[test]
fn a_checksum_is_a_crc_32() {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(!0_u32, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 })
        })
    };
    assert_eq!(crc(b"123456789"), 0xCBF4_3926);
    let (_, log) = rehearse("");
    let length = usize::from(u16::from_le_bytes([log[11], log[12]]));
    assert_eq!(log[7..11], crc(&log[13..14 + length]).to_le_bytes());
}

#[test]
fn other_processes_write_nothing() {
    let mut run = Rehearsal::new(Wandb(Options::from_toml("").expect("valid options")));
    run.state.rank = 1;
    run.epochs(1, 1).expect("no error");
    assert!(run.host.calls.is_empty());
    run.state.rank = 0;
    assert!(run.epochs(2, 1).is_err(), "without information about the run");
}
