//! A Hearth plugin that writes an offline run for `wandb sync` (Weights & Biases): a log in LevelDB's format, of
//! records in Protocol Buffers (wandb_internal.proto).

use hearth_plugin::serde_json::{self, Value, json};
use hearth_plugin::{Attachment, Context, Event, Handler, HandlerError, When, export_plugin, options};

options! {
    /// Options in a recipe.
    pub struct Options {
        /// The project at Weights & Biases.
        project: String = "hearth".into(),
    }
}

/// Adds an epoch to the run.
pub struct Wandb(pub Options);

fn varint(value: usize) -> Vec<u8> {
    if value < 128 { vec![value as u8] } else { [vec![value as u8 | 128], varint(value >> 7)].concat() }
}

fn field(number: usize, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len()), content.to_vec()].concat()
}

fn items<'a>(items: impl IntoIterator<Item = (&'a str, Value)>) -> Vec<u8> {
    let item = |(key, value): (&str, Value)| [field(1, key.as_bytes()), field(16, value.to_string().as_bytes())];
    items.into_iter().flat_map(|pair| field(1, &item(pair).concat())).collect()
}

/// Adds a record to a log, in parts that end with their block. Fewer bytes than a head has are left empty.
fn append(log: &mut Vec<u8>, record: &[u8], later: usize) {
    log.resize(log.len().max((log.len() + 6) >> 15 << 15), 0);
    let (part, more) = record.split_at(record.len().min((1 << 15) - 7 - log.len() % (1 << 15)));
    let typed = [&[[[1, 2], [4, 3]][later][usize::from(!more.is_empty())]], part].concat();
    let bit = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
    let crc = !typed.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit));
    log.extend([&crc.to_le_bytes()[..], &(part.len() as u16).to_le_bytes(), &typed].concat());
    if !more.is_empty() {
        append(log, more, 1);
    }
}

impl Handler for Wandb {
    fn name(&self) -> &str {
        "wandb"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![(Event::EpochCompleted | Event::Completed | Event::ExceptionRaised).filter(|state, _| state.rank == 0)]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let mut log = cx.host.recall("log").unwrap_or_else(|| b":W&B\xe1\xbe\x00".to_vec());
        let fresh = format!("{:08x}", std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u32);
        let id = cx.host.recall("id").map_or(Ok(fresh), String::from_utf8)?;
        if log.len() == 7 {
            let info: Value = serde_json::from_str(&cx.host.run_info()?)?;
            let recipe = items(info["recipe"].as_object().into_iter().flatten().map(|(k, v)| (k.as_str(), v.clone())));
            let run = [field(1, id.as_bytes()), field(3, self.0.project.as_bytes()), field(4, &recipe)].concat();
            append(&mut log, &field(17, &run), 0);
            cx.host.remember("id", id.as_bytes())?;
        }
        if event == Event::EpochCompleted {
            let (lr, loss) = (json!(cx.host.learning_rate()), json!(cx.host.output("mean_loss").ok()));
            let more = [("lr", lr), ("loss", loss), ("_step", json!(cx.state.epoch))];
            let values = items(cx.state.metrics.iter().map(|(name, value)| (name.as_str(), json!(value))).chain(more));
            append(&mut log, &field(3, &values), 0);
            let step = field(2, &[vec![8], varint(cx.state.epoch as usize)].concat());
            append(&mut log, &field(2, &[values, step].concat()), 0);
            cx.host.remember("log", &log)?;
        } else {
            append(&mut log, &field(18, &[8, u8::from(event == Event::ExceptionRaised)]), 0);
        }
        Ok(cx.host.attach(&format!("offline-run-{id}/run-{id}.wandb"), &Attachment::File(&log))?)
    }
}

export_plugin!("wandb", Options, Wandb, needs: [FILES]);
