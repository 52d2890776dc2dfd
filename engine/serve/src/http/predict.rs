//! `/predict/{model}`: predicts the label map of an image; also used by `/infer`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::params::{check_fields, check_params};
use super::upload::{Upload, parameters};
use super::{App, Peer, Shared, as_json, body};
use crate::model::{Answer, Format, Model};
use crate::queue::Work;
use crate::spool::Workspace;

/// A prediction, and its parameters for clients.
pub struct Predicted {
    pub answer: Answer,
    /// Names of labels, times, and the facts from the model.
    pub params: Map<String, Value>,
    pub workspace: Arc<Workspace>,
}

/// Waits in the queue, and computes a prediction.
pub async fn compute(app: &App, work: Work) -> Result<Predicted, Fault> {
    let (workspace, model) = (work.workspace.clone(), work.model.clone());
    let done = app.queue.submit(work).map_err(|busy| {
        let fault = Fault::from(busy);
        app.metrics.refused(fault.refused.unwrap_or_default());
        fault
    })?;
    let limit = app.options.timeout;
    let Ok(done) = tokio::time::timeout(limit, done).await else {
        let what = format!("no result after {} s: other requests were first, or it takes longer", limit.as_secs());
        return Err(Fault::new(StatusCode::GATEWAY_TIMEOUT, what));
    };
    let done = done.ok_or_else(|| Fault::failed("the computation ended without a result"))?;
    let answer = done.result?;
    let card = model.card();
    let labels: Map<String, Value> = card.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut params = answer.facts.clone();
    params.insert("label_names".to_owned(), Value::Object(labels));
    let (waited, took) = (done.waited.as_secs_f64(), done.took.as_secs_f64());
    params.insert("latencies".to_owned(), json!({"queue": waited, "infer": took, "total": waited + took}));
    Ok(Predicted { answer, params, workspace })
}

/// `POST /predict/{model}`.
pub async fn named(
    State(app): Shared,
    Path(name): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Result<Response, Fault> {
    let model = app.model(Some(&name))?;
    predict(&app, model, query, request).await
}

/// `POST /predict`, if there is only one model.
pub async fn only(
    State(app): Shared,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Result<Response, Fault> {
    let model = app.model(None)?;
    predict(&app, model, query, request).await
}

async fn predict(
    app: &App,
    model: Arc<dyn Model>,
    query: BTreeMap<String, String>,
    request: Request,
) -> Result<Response, Fault> {
    if let Some(unknown) = query.keys().find(|key| !matches!(&***key, "format" | "series" | "name")) {
        return Err(Fault::bad(format!("{unknown:?} is not a parameter, expected format, series or name")));
    }
    let format = format_of(query.get("format").map(String::as_str))?;
    let client = client(&request);
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_form = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("multipart/form-data"));
    let name = query.get("name").map(String::as_str);
    let upload = if is_form { app.receive(request).await? } else { app.receive_file(request, name).await? };
    let Upload { fields, files, workspace } = upload;
    check_fields(&fields, &["series", "params"])?;
    let parameters = parameters(&fields)?;
    check_params(&parameters, &*model)?;
    let input = app.input(files, &workspace).await?;
    let series = query.get("series").or(fields.get("series")).cloned();
    let work = Work { client, model, input, series, format, parameters, workspace, _session: None };
    let predicted = compute(app, work).await?;
    match &predicted.answer.file {
        None => Ok(as_json(&Value::Object(predicted.params))),
        Some(path) => {
            let name = format!("prediction{}", format.end());
            Ok(body::file(path, &name, Some(predicted.workspace.clone())).await?)
        }
    }
}

/// The client of a request, by its address.
pub fn client(request: &Request) -> String {
    request.extensions().get::<Peer>().map(|peer| peer.0.to_string()).unwrap_or_default()
}

/// The format for a word; NIfTI without one.
pub fn format_of(word: Option<&str>) -> Result<Format, Fault> {
    let Some(word) = word else { return Ok(Format::default()) };
    Format::of_word(word).ok_or_else(|| {
        Fault::bad(format!(
            "the format {word:?} is not known, expected nifti, nii, nrrd, mha, mgz, seg.nrrd, seg or json"
        ))
    })
}
