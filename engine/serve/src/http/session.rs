//! `/session/`: images that a client stores here while it works on them.

use std::time::Duration;

use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::fault::Fault;
use super::{Shared, as_json, body};

/// Parameters of `PUT /session/`.
#[derive(Deserialize)]
pub struct Create {
    /// The expiry time in seconds.
    #[serde(default)]
    expiry: u64,
}

/// `PUT /session/`: the files of an image, or a zip, which is always unpacked.
pub async fn create(State(app): Shared, Query(query): Query<Create>, request: Request) -> Result<Response, Fault> {
    let upload = app.receive(request).await?;
    let image = app.input(upload.files, &upload.workspace).await?;
    let expiry = (query.expiry > 0).then(|| Duration::from_secs(query.expiry));
    let (id, info) = app.sessions.add(image, upload.workspace, expiry)?;
    Ok(as_json(&json!({"session_id": id, "session_info": info})))
}

/// Parameters of `GET /session/{id}`.
#[derive(Deserialize)]
pub struct Get {
    /// Whether the image is sent, too.
    #[serde(default)]
    image: bool,
}

fn absent(id: &str) -> Fault {
    Fault::absent(format!("there is no session {id:?}: its time is over, or it was removed"))
}

/// `GET /session/{id}`.
pub async fn get(State(app): Shared, Path(id): Path<String>, Query(query): Query<Get>) -> Result<Response, Fault> {
    let session = app.sessions.get(&id).ok_or_else(|| absent(&id))?;
    if !query.image {
        return Ok(as_json(&session.info(&id)));
    }
    if !session.image.is_file() {
        return Err(Fault::unusable("the session has several files, but at most one can be sent"));
    }
    let name = session.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(body::file(&session.image, &name, Some(session.workspace.clone())).await?)
}

/// `DELETE /session/{id}`.
pub async fn remove(State(app): Shared, Path(id): Path<String>) -> Result<Response, Fault> {
    let session = app.sessions.remove(&id).ok_or_else(|| absent(&id))?;
    Ok(as_json(&session.info(&id)))
}
