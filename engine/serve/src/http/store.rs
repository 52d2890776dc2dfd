//! `/datastore/`: images and labels in a folder.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::upload::{Upload, UploadedFile, parameters};
use super::{App, Shared, as_json, body};
use crate::datastore::{FINAL, Stored};
use crate::grid::Grid;
use crate::names::split;
use crate::spool::Workspace;

/// Parameters of all these requests.
#[derive(Default, Deserialize)]
pub struct Params {
    output: Option<String>,
    image: Option<String>,
    label: Option<String>,
    id: Option<String>,
    tag: Option<String>,
}

impl Params {
    /// The name of an image; MONAI Label calls it `image`, `label` or `id`.
    fn name(&self) -> Result<String, Fault> {
        let name = self.image.as_ref().or(self.label.as_ref()).or(self.id.as_ref());
        name.cloned().ok_or_else(|| Fault::bad("give the image: ?image=NAME"))
    }

    /// The tag of a label [default: `final`].
    fn tag(&self) -> String {
        self.tag.as_deref().filter(|tag| !tag.is_empty()).unwrap_or(FINAL).to_owned()
    }
}

/// `GET /datastore/`: the numbers; with `?output=all` all content, with `train` the pairs.
pub async fn overview(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let value = match params.output.as_deref().unwrap_or("stats") {
        "stats" => app.stored(|store| store.status()).await?,
        "all" => app.stored(|store| store.all()).await?,
        "train" => app.stored(|store| store.pairs()).await?,
        other => return Err(Fault::unusable(format!("output is {other:?}, expected stats, all or train"))),
    };
    Ok(as_json(&value))
}

/// The file of an upload, and the facts about it in `params`.
async fn uploaded(app: &App, request: Request) -> Result<(PathBuf, Map<String, Value>, Upload), Fault> {
    if app.datastore.is_none() {
        // Checked before the upload.
        app.stored(|_| Ok(())).await?;
    }
    let upload = app.receive(request).await?;
    let info = parameters(&upload.fields)?;
    let [file] = &upload.files[..] else {
        return Err(Fault::bad(format!("the form has {} files, expected one", upload.files.len())));
    };
    Ok((file.path.clone(), info, upload))
}

/// What a volume is read as.
#[derive(Clone, Copy)]
enum Kind {
    Image,
    Label,
}

/// Reads a volume to its end, if the server has a reader: its grid. An archive is unpacked next to it.
async fn volume(app: &App, file: &Path, kind: Kind) -> Result<Option<Grid>, Fault> {
    if app.options.volumes.is_none() {
        return Ok(None);
    }
    let workspace = app.spool.workspace()?;
    let name = file.file_name().unwrap_or_default();
    let path = workspace.uploads().join(name);
    // The same bytes under another name; they are counted already.
    tokio::fs::hard_link(file, &path).await?;
    let input = app.input(vec![UploadedFile { field: "file".to_owned(), path }], &workspace).await?;
    Ok(Some(grid(app, input, workspace, kind).await?))
}

/// The grid of an input.
async fn grid(app: &App, input: PathBuf, workspace: Arc<Workspace>, kind: Kind) -> Result<Grid, Fault> {
    let Some(volumes) = app.options.volumes.clone() else { return Err(Fault::failed("no reader of volumes")) };
    // The semaphore is never closed.
    let _place = app.reading.acquire().await.map_err(|error| Fault::failed(error.to_string()))?;
    let read = move || {
        let found = catch_unwind(AssertUnwindSafe(|| match kind {
            Kind::Image => volumes.grid(&input),
            Kind::Label => volumes.label(&input),
        }));
        let found = found.unwrap_or_else(|_| Err("its reader ended by an error in this program".to_owned()));
        found.map_err(|why| Fault::unusable(format!("it cannot be stored: {}", workspace.without_paths(&why))))
    };
    tokio::task::spawn_blocking(read).await.map_err(|error| Fault::failed(error.to_string()))?
}

/// Checks that a label is on the grid of its image: with another, no one could tell what it marks.
async fn on_the_grid(app: &App, image: &str, file: &Path) -> Result<(), Fault> {
    let Some(label) = volume(app, file, Kind::Label).await? else { return Ok(()) };
    let workspace = app.spool.workspace()?;
    let input = app.of_datastore(image, &workspace).await?;
    let image = grid(app, input, workspace, Kind::Image).await?;
    // 3D Slicer stores the part of a segmentation that has segments.
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_part = split(&name).1 == ".seg.nrrd";
    image
        .check(&label, is_part)
        .map_err(|what| Fault::unusable(format!("the label is not on the image's grid: {what}")))
}

/// Checks that an image with labels is not replaced by another one, to which they do not belong.
async fn fits_its_labels(app: &App, id: &str, file: &Path) -> Result<(), Fault> {
    let all = app.stored(|store| store.all()).await?;
    if all["objects"][id]["labels"].as_object().is_none_or(Map::is_empty) {
        return Ok(());
    }
    let (stored, given) = (id.to_owned(), file.to_owned());
    let before = app.stored(move |store| store.image(&stored)).await?;
    let read = move || Ok::<bool, std::io::Error>(hash_of(before.file)? == hash_of(hearth_files::open(given)?)?);
    match tokio::task::spawn_blocking(read).await.map_err(|error| Fault::failed(error.to_string()))?? {
        true => Ok(()),
        false => Err(Fault::unusable(format!(
            "the image {id:?} has labels, and this is another image; delete the image with its labels first, or give \
             this one another name"
        ))),
    }
}

fn hash_of(file: File) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize())
}

/// `PUT /datastore/image`.
pub async fn add_image(State(app): Shared, Query(params): Query<Params>, request: Request) -> Result<Response, Fault> {
    let (file, info, upload) = uploaded(&app, request).await?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = params.name().unwrap_or_else(|_| split(&name).0.to_owned());
    volume(&app, &file, Kind::Image).await?;
    fits_its_labels(&app, &id, &file).await?;
    let stored = id.clone();
    app.stored(move |store| store.add_image(&stored, &file, info)).await?;
    drop(upload);
    Ok(as_json(&json!({"image": id})))
}

/// `PUT /datastore/label`.
pub async fn add_label(State(app): Shared, Query(params): Query<Params>, request: Request) -> Result<Response, Fault> {
    let (id, tag) = (params.name()?, params.tag());
    let (file, info, upload) = uploaded(&app, request).await?;
    on_the_grid(&app, &id, &file).await?;
    let stored = id.clone();
    app.stored(move |store| store.add_label(&stored, &tag, &file, info)).await?;
    drop(upload);
    Ok(as_json(&json!({"image": id, "label": id})))
}

/// Sends a file of the datastore.
async fn sent(stored: Stored) -> Result<Response, Fault> {
    Ok(body::open_file(stored.file.into(), &stored.name, None).await?)
}

/// `GET /datastore/image`.
pub async fn image(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let id = params.name()?;
    sent(app.stored(move |store| store.image(&id)).await?).await
}

/// `GET /datastore/label`.
pub async fn label(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let (id, tag) = (params.name()?, params.tag());
    sent(app.stored(move |store| store.label(&id, &tag)).await?).await
}

/// `GET /datastore/image/info`.
pub async fn image_info(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let id = params.name()?;
    Ok(as_json(&app.stored(move |store| store.image_info(&id)).await?))
}

/// `GET /datastore/label/info`.
pub async fn label_info(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let (id, tag) = (params.name()?, params.tag());
    let all = app.stored({
        let (id, tag) = (id.clone(), tag.clone());
        move |store| store.label(&id, &tag).and_then(|_| store.all())
    });
    Ok(as_json(&all.await?["objects"][&id]["labels"][&tag]["info"]))
}

/// `DELETE /datastore/image`: the image with its labels.
pub async fn remove_image(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let id = params.name()?;
    app.stored(move |store| store.remove_image(&id)).await?;
    Ok(as_json(&json!({})))
}

/// `DELETE /datastore/label`.
pub async fn remove_label(State(app): Shared, Query(params): Query<Params>) -> Result<Response, Fault> {
    let (id, tag) = (params.name()?, params.tag());
    app.stored(move |store| store.remove_label(&id, &tag)).await?;
    Ok(as_json(&json!({})))
}
