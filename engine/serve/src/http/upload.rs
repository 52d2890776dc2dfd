//! The content of a request: [`Upload`].

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{Body, HttpBody};
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{Form, FromRequest, Multipart, Request};
use axum::http::{StatusCode, header};
use hyper::body::Bytes;
use serde_json::{Map, Value};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};

use super::App;
use super::fault::Fault;
use super::flow::Flow;
use crate::names::{file_name, split};
use crate::sniff;
use crate::spool::Workspace;
use crate::unpack::{Budget, inflates_within, inner, unpack};

/// The maximum size of all text fields of a request in bytes.
const TEXT: usize = 1 << 20;
/// The maximum number of text fields of a request.
const FIELDS: usize = 100;
/// The maximum length of the name of a field in bytes.
const NAME: usize = 1000;
/// The maximum number of files in a request.
const FILES: usize = 20_000;
/// The maximum ratio of an unpacked archive to the size limit of a request.
const UNPACKED: u64 = 4;

/// A received file of a request.
#[derive(Debug)]
pub struct UploadedFile {
    /// The field of the form.
    pub field: String,
    /// The path of the file. The file name is the client's, without folders.
    pub path: PathBuf,
}

/// The fields and files of a request.
pub struct Upload {
    pub fields: BTreeMap<String, String>,
    pub files: Vec<UploadedFile>,
    pub workspace: Arc<Workspace>,
}

/// Receives a request within the limits of a server.
struct Receiver<'a> {
    app: &'a App,
    workspace: Arc<Workspace>,
    /// Bytes that the files may still have.
    left: u64,
    flow: Flow,
    /// Bytes that the text fields may still have, with their names.
    texts: usize,
}

/// Reads a form without files, of at most `most` bytes. Its names and values are in memory, and for some
/// addresses its sender is not known yet.
pub async fn form(app: &App, request: Request, most: usize) -> Result<BTreeMap<String, String>, Fault> {
    let mut flow = Flow::new(app.options.idle);
    let (parts, body) = request.into_parts();
    let (mut body, mut bytes) = (flow.metered(body), Vec::new());
    while let Some(frame) = flow.next(next_frame(&mut body)).await? {
        let frame = frame.map_err(|error| Fault::bad(format!("the form ended early: {error}")))?;
        if bytes.len() + frame.len() > most {
            let limit = hearth_machine::readable(most as u64);
            return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the form has more than {limit}")));
        }
        bytes.extend_from_slice(&frame);
    }
    if bytes.iter().filter(|byte| **byte == b'&').count() >= FIELDS {
        return Err(too_many_fields());
    }
    let request = Request::from_parts(parts, Body::from(bytes));
    let form = Form::<BTreeMap<String, String>>::from_request(request, &()).await;
    Ok(form.map_err(|error| Fault::bad(error.to_string()))?.0)
}

impl App {
    fn receiver(&self, request: &Request) -> Result<Receiver<'_>, Fault> {
        let limit = self.options.max_request;
        let said = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if said.is_some_and(|said: u64| said > limit.saturating_add(TEXT as u64)) {
            return Err(too_large(limit));
        }
        let (workspace, flow) = (self.spool.workspace()?, Flow::new(self.options.idle));
        Ok(Receiver { app: self, workspace, left: limit, flow, texts: TEXT })
    }

    /// Reads a form. A request without a body has an empty one.
    pub async fn receive(&self, request: Request) -> Result<Upload, Fault> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let mut receiver = self.receiver(&request)?;
        let (mut fields, mut files) = (BTreeMap::new(), Vec::new());
        if kind.starts_with("application/x-www-form-urlencoded") {
            fields = form(self, request, TEXT).await?;
        } else if kind.starts_with("multipart/form-data") {
            let request = request.map(|body| receiver.flow.metered(body));
            let form = Multipart::from_request(request, &()).await;
            let mut form = form.map_err(|error| Fault::bad(error.to_string()))?;
            loop {
                let next = receiver.flow.next(form.next_field()).await?;
                let Some(field) = next.map_err(|error| receiver.broken(&error))? else { break };
                let name = field.name().unwrap_or_default().to_owned();
                if name.len() > NAME {
                    return Err(Fault::bad(format!("the name of a field has {} bytes, expected {NAME}", name.len())));
                }
                match field.file_name().map(file_name) {
                    None if fields.len() == FIELDS => return Err(too_many_fields()),
                    None => {
                        let text = receiver.text(field).await?;
                        fields.insert(name, text);
                    }
                    Some(_) if files.len() == FILES => {
                        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {FILES} files")));
                    }
                    Some(file) => {
                        let path = receiver.place(&file, files.len()).await?;
                        receiver.file(field, &path).await?;
                        files.push(UploadedFile { field: name, path });
                    }
                }
            }
        } else if !kind.is_empty() && !request.body().is_end_stream() {
            return Err(Fault::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("{kind} is not a form, expected multipart/form-data (curl -F)"),
            ));
        }
        Ok(Upload { fields, files, workspace: receiver.workspace })
    }

    /// Reads a body that is itself a file.
    pub async fn receive_file(&self, request: Request, name: Option<&str>) -> Result<Upload, Fault> {
        let mut receiver = self.receiver(&request)?;
        let path = receiver.place(&file_name(name.unwrap_or_default()), 0).await?;
        let mut body = receiver.flow.metered(request.into_body());
        let mut file = BufWriter::with_capacity(TEXT, File::create_new(&path).await?);
        let mut any = false;
        while let Some(frame) = receiver.flow.next(next_frame(&mut body)).await? {
            let frame = frame.map_err(|error| Fault::bad(format!("the upload ended early: {error}")))?;
            any |= !frame.is_empty();
            receiver.write(&frame, &mut file).await?;
        }
        file.flush().await?;
        let files = if any { vec![UploadedFile { field: "file".to_owned(), path }] } else { Vec::new() };
        Ok(Upload { fields: BTreeMap::new(), files, workspace: receiver.workspace })
    }

    /// The input for the prediction: a file, or the folder of several files or of an archive. What is
    /// compressed has at most [`UNPACKED`] times the bytes of a request when it is unpacked.
    pub async fn input(&self, files: Vec<UploadedFile>, workspace: &Arc<Workspace>) -> Result<PathBuf, Fault> {
        let workspace = workspace.clone();
        let mut budget = Budget::new(self.options.max_request.saturating_mul(UNPACKED));
        let prepare = move || -> Result<PathBuf, Fault> {
            let mut last = None;
            let count = files.len();
            for UploadedFile { path, .. } in files {
                let path = named_by_content(path)?;
                let end = path.extension().unwrap_or_default();
                let path = match end.eq_ignore_ascii_case("zip") {
                    true => unpack(&path, &mut budget, &workspace)?,
                    false => path,
                };
                last = Some(path);
            }
            let Some(last) = last else { return Err(Fault::bad("the request has no file with an image")) };
            inflates_within(&workspace.uploads(), &mut budget)?;
            Ok(if count == 1 { last } else { inner(workspace.uploads()) })
        };
        tokio::task::spawn_blocking(prepare).await.map_err(|error| Fault::failed(error.to_string()))?
    }

    /// An image of the datastore as an input. It is copied, so that it is read as any upload: without
    /// its neighbours, and as it is now.
    pub async fn of_datastore(&self, id: &str, workspace: &Arc<Workspace>) -> Result<PathBuf, Fault> {
        let id = id.to_owned();
        let mut image = self.stored(move |store| store.image(&id)).await?;
        let (path, own) = (workspace.uploads().join(&image.name), workspace.clone());
        let copied = path.clone();
        let copy = move || -> Result<(), Fault> {
            own.reserve(image.file.metadata()?.len())?;
            std::io::copy(&mut image.file, &mut std::fs::File::create_new(copied)?)?;
            Ok(())
        };
        tokio::task::spawn_blocking(copy).await.map_err(|error| Fault::failed(error.to_string()))??;
        self.input(vec![UploadedFile { field: "image".to_owned(), path }], workspace).await
    }
}

impl Receiver<'_> {
    /// The path for a file. A second file with the same name goes into a separate folder.
    async fn place(&self, name: &str, index: usize) -> Result<PathBuf, Fault> {
        let path = self.workspace.uploads().join(name);
        if !tokio::fs::try_exists(&path).await? {
            return Ok(path);
        }
        let mut folder = self.workspace.uploads().join(format!("part{index}"));
        // A client's file may have that name.
        while tokio::fs::try_exists(&folder).await? {
            folder.as_mut_os_string().push("_");
        }
        tokio::fs::create_dir(&folder).await?;
        Ok(folder.join(name))
    }

    async fn file(&mut self, mut field: Field<'_>, path: &Path) -> Result<(), Fault> {
        let mut file = BufWriter::with_capacity(TEXT, File::create_new(path).await?);
        while let Some(chunk) = self.chunk(&mut field).await? {
            self.write(&chunk, &mut file).await?;
        }
        Ok(file.flush().await?)
    }

    async fn chunk(&mut self, field: &mut Field<'_>) -> Result<Option<Bytes>, Fault> {
        let chunk = self.flow.next(field.chunk()).await?;
        chunk.map_err(|error| self.broken(&error))
    }

    async fn write(&mut self, bytes: &Bytes, file: &mut BufWriter<File>) -> Result<(), Fault> {
        let count = bytes.len() as u64;
        let Some(left) = self.left.checked_sub(count) else { return Err(too_large(self.app.options.max_request)) };
        self.left = left;
        self.workspace.reserve(count)?;
        self.app.metrics.received.fetch_add(count, Ordering::Relaxed);
        Ok(file.write_all(bytes).await?)
    }

    async fn text(&mut self, mut field: Field<'_>) -> Result<String, Fault> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(&mut field).await? {
            let Some(left) = self.texts.checked_sub(chunk.len()) else {
                let limit = hearth_machine::readable(TEXT as u64);
                let what = format!("the text fields have more than {limit}");
                return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, what));
            };
            self.texts = left;
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| Fault::bad("a field of the form is not UTF-8"))
    }

    fn broken(&self, error: &MultipartError) -> Fault {
        if self.flow.is_over() {
            return Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "the head of a part of the form is too long");
        }
        Fault::new(error.status(), format!("the form cannot be read: {}", error.body_text()))
    }
}

/// The next bytes of a body.
async fn next_frame(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    // Trailers contain no data.
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

fn too_large(limit: u64) -> Fault {
    let limit = hearth_machine::readable(limit);
    Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the request has more than {limit}, which is the limit"))
}

fn too_many_fields() -> Fault {
    Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the form has more than {FIELDS} fields"))
}

/// Names a file by its content if its name is not informative.
fn named_by_content(path: PathBuf) -> Result<PathBuf, Fault> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !split(&name).1.is_empty() {
        return Ok(path);
    }
    let Some(end) = sniff::end_of(&path) else { return Ok(path) };
    let renamed = path.with_file_name(format!("{name}{end}"));
    std::fs::rename(&path, &renamed)?;
    Ok(renamed)
}

/// The object in the field `params`.
pub fn parameters(fields: &BTreeMap<String, String>) -> Result<Map<String, Value>, Fault> {
    let Some(text) = fields.get("params").filter(|text| !text.trim().is_empty()) else { return Ok(Map::new()) };
    match serde_json::from_str(text) {
        Ok(Value::Object(params)) => Ok(params),
        Ok(other) => Err(Fault::bad(format!("params is {other}, expected a JSON object"))),
        Err(error) => Err(Fault::bad(format!("params is not JSON: {error}"))),
    }
}
