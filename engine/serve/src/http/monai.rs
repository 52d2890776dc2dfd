//! MONAI Label's endpoints that 3D Slicer's client uses: `/info/`, `/infer/{model}`,
//! `/activelearning/{strategy}`, `/logs/`, `/auth/`, `/model/info/{model}`, `/train/`.
//!
//! The answers have MONAI Label's keys (`monailabel/endpoints`, 0.8.5). The status of errors differs:
//! an unreadable image is 422 here, and 500 in MONAI Label.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::guard::bearer;
use super::params::{InferParams, check_fields};
use super::predict::{Predicted, client, compute};
use super::upload::{Upload, UploadedFile, form, parameters};
use super::{App, Shared, as_json, body};
use crate::datastore::ORIGINAL;
use crate::model::{Card, Format};
use crate::queue::Work;
use crate::spool::Workspace;

/// The maximum size of a form with a user and a password in bytes.
const LOGIN: usize = 16 << 10;

/// Strategies for choosing the next image.
const STRATEGIES: [(&str, &str); 2] =
    [("first", "The first image without an approved label"), ("random", "Any image without an approved label")];

fn label_names(card: &Card) -> Map<String, Value> {
    card.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

/// `GET /info/`.
pub async fn info(State(app): Shared) -> Result<Response, Fault> {
    let mut merged: Vec<&str> = Vec::new();
    let mut models = Map::new();
    for card in app.models.iter().map(|model| model.card()) {
        let names = card.labels.iter().map(|(name, _)| name.as_str());
        merged.extend(names.filter(|name| !merged.contains(name)).collect::<Vec<_>>());
        let model = json!({
            "type": card.kind.word(), "labels": label_names(card), "dimension": card.dimension,
            "description": card.description, "config": {},
        });
        models.insert(card.name.clone(), model);
    }
    let (status, strategies) = match app.datastore.is_some() {
        true => {
            let all = STRATEGIES.iter().map(|(name, about)| ((*name).to_owned(), json!({"description": about})));
            (app.stored(|store| store.status()).await?, all.collect())
        }
        false => (json!({"total": 0, "completed": 0, "label_tags": {}}), Map::new()),
    };
    Ok(as_json(&json!({
        "name": "Hearth", "description": "Models of Hearth", "version": env!("CARGO_PKG_VERSION"),
        "labels": merged, "models": models, "trainers": {}, "strategies": strategies, "scoring": {},
        "train_stats": {}, "datastore": status,
    })))
}

/// The address of `POST /infer/{model}`.
struct Infer {
    /// The name of an image in the datastore.
    image: String,
    session_id: String,
    /// The form of the answer: `image`, `json`, `all`, `dicom_seg`.
    output: Option<String>,
}

impl Infer {
    fn read(mut query: BTreeMap<String, String>) -> Result<Self, Fault> {
        let mut take = |key: &str| query.remove(key);
        let found = Self {
            image: take("image").unwrap_or_default(),
            session_id: take("session_id").unwrap_or_default(),
            output: take("output"),
        };
        match query.keys().next() {
            None => Ok(found),
            Some(key) => Err(Fault::bad(format!("{key:?} is not a parameter, expected image, session_id or output"))),
        }
    }
}

/// `POST /infer/{model}`.
pub async fn infer(
    State(app): Shared,
    Path(name): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Result<Response, Fault> {
    let query = Infer::read(query)?;
    let model = app.model(Some(&name))?;
    let output = query.output.as_deref().unwrap_or("all");
    if !matches!(output, "image" | "json" | "all" | "dicom_seg") {
        let expected = "expected image, json, all or dicom_seg";
        return Err(Fault::unusable(format!("output is {output:?}, {expected}")));
    }
    let client = client(&request);
    let Upload { fields, files, workspace } = app.receive(request).await?;
    check_fields(&fields, &["params"])?;
    let parameters = parameters(&fields)?;
    let params = InferParams::read(&parameters, &*model)?;
    let format = match output {
        "dicom_seg" => Format::DicomSeg,
        "json" => Format::Json,
        _ => params.format.unwrap_or_default(),
    };
    let of_datastore = files.is_empty() && query.session_id.is_empty();
    if params.save_label && !(of_datastore && output != "json") {
        let what = "save_label stores a label map of an image of the datastore: give ?image=NAME, and not output=json";
        return Err(Fault::bad(what));
    }
    let (input, session) = input(&app, &query, files, &workspace).await?;
    let InferParams { series, save_label, label_tag, .. } = params;
    let work = Work { client, model, input, series, format, parameters, workspace, _session: session };
    let predicted = compute(&app, work).await?;
    if save_label {
        save(&app, &name, &query.image, label_tag, &predicted).await?;
    }
    let params = Value::Object(predicted.params);
    let Some(file) = predicted.answer.file.filter(|_| output != "json") else { return Ok(as_json(&params)) };
    let (name, workspace) = (format!("{name}{}", format.end()), predicted.workspace);
    Ok(match output {
        "all" => body::multipart(&params.to_string(), &file, &name, workspace).await?,
        _ => body::file(&file, &name, Some(workspace)).await?,
    })
}

/// The input image: from the request, from a session, or from the datastore. The workspace of a session
/// is kept while its image is read.
async fn input(
    app: &App,
    query: &Infer,
    files: Vec<UploadedFile>,
    workspace: &Arc<Workspace>,
) -> Result<(PathBuf, Option<Arc<Workspace>>), Fault> {
    if files.iter().any(|file| file.field == "label") {
        return Err(Fault::bad("the file `label` has scribbles, and interactive models are not supported"));
    }
    if !query.session_id.is_empty() {
        let id = &query.session_id;
        let absent = || Fault::absent(format!("there is no session {id:?}: its time is over, or it was removed"));
        let session = app.sessions.get(id).ok_or_else(absent)?;
        return Ok((session.image, Some(session.workspace)));
    }
    if !files.is_empty() {
        return Ok((app.input(files, workspace).await?, None));
    }
    if query.image.is_empty() {
        return Err(Fault::bad("neither a file, nor ?image=NAME of the datastore, nor ?session_id= is given"));
    }
    Ok((app.of_datastore(&query.image, workspace).await?, None))
}

/// Stores a label in the datastore.
async fn save(app: &App, model: &str, image: &str, tag: Option<String>, predicted: &Predicted) -> Result<(), Fault> {
    let Some(file) = predicted.answer.file.clone() else {
        return Err(Fault::bad("save_label: this model predicts no label map"));
    };
    let tag = tag.unwrap_or_else(|| ORIGINAL.to_owned());
    let info = json!({"model": model, "params": predicted.params});
    let info = info.as_object().cloned().unwrap_or_default();
    let image = image.to_owned();
    app.stored(move |store| store.add_label(&image, &tag, &file, info)).await
}

/// `POST /activelearning/{strategy}`: the next image without an approved label; `{}` if all have one.
pub async fn next_sample(State(app): Shared, Path(strategy): Path<String>) -> Result<Response, Fault> {
    if !STRATEGIES.iter().any(|(name, _)| *name == strategy) {
        return Err(Fault::absent(format!("there is no strategy {strategy:?}, expected first or random")));
    }
    let open = app.stored(|store| store.open_images()).await?;
    let place = match &*strategy {
        "random" => {
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(std::io::Error::other)?;
            u64::from_le_bytes(random) % open.len().max(1) as u64
        }
        _ => 0,
    };
    let Some(id) = open.get(place as usize).cloned() else { return Ok(as_json(&json!({}))) };
    let named = id.clone();
    let (image, info) = app.stored(move |store| Ok((store.image(&named)?, store.image_info(&named)?))).await?;
    let mut sample = info.as_object().cloned().unwrap_or_default();
    sample.insert("name".to_owned(), json!(image.name));
    sample.insert("id".to_owned(), json!(id));
    Ok(as_json(&Value::Object(sample)))
}

/// Parameters of `GET /logs/`.
#[derive(Deserialize)]
pub struct Logs {
    lines: Option<usize>,
}

/// `GET /logs/`: the last lines, as text.
pub async fn logs(State(app): Shared, Query(query): Query<Logs>) -> Response {
    let text = app.journal.last(query.lines.unwrap_or(300));
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// `GET /model/info/{model}`.
pub async fn model_info(State(app): Shared, Path(name): Path<String>) -> Result<Response, Fault> {
    let model = app.model(Some(&name))?;
    let Some(checksum) = &model.card().checksum else {
        return Err(Fault::absent(format!("the weights of {name} have no checksum")));
    };
    Ok(as_json(&json!({"checksum": checksum})))
}

/// `GET /model/{model}`.
pub async fn no_weights(State(app): Shared, Path(name): Path<String>) -> Result<Response, Fault> {
    app.model(Some(&name))?;
    Err(Fault::new(StatusCode::FORBIDDEN, "this server does not send weights"))
}

/// `/train/`: no training is running, which MONAI Label reports with the same status.
pub async fn no_training() -> Fault {
    Fault::absent("this server does not train; use `hearth train`")
}

/// `GET /auth/`.
pub async fn auth(State(app): Shared) -> Response {
    as_json(&json!({"enabled": app.options.token.is_some(), "client_id": "hearth", "realm": ""}))
}

/// `POST /auth/token`: 3D Slicer's form asks for a user and a password, and the password is the token.
pub async fn token(State(app): Shared, request: Request) -> Result<Response, Fault> {
    let form = form(&app, request, LOGIN).await?;
    let Some(token) = &app.options.token else {
        return Ok(as_json(&json!({"access_token": null, "token_type": null})));
    };
    let given = form.get("password").map_or("", |text| text.trim());
    if !token.is(given) {
        app.metrics.refused("token");
        return Err(Fault::new(StatusCode::UNAUTHORIZED, "the password is not the token of this server"));
    }
    Ok(as_json(&json!({"access_token": given, "token_type": "bearer"})))
}

/// `GET /auth/token/valid`.
pub async fn token_valid(State(app): Shared, headers: HeaderMap) -> Response {
    let known = app.options.token.as_ref().is_none_or(|token| bearer(&headers).is_some_and(|given| token.is(given)));
    as_json(&json!({"username": if known { "hearth" } else { "" }, "roles": []}))
}
