//! The HTTP interface: the shared state, and the table of paths.

mod body;
mod fault;
mod flow;
mod guard;
mod monai;
mod params;
mod predict;
mod session;
mod store;
mod upload;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde_json::{Value, json};

use self::fault::Fault;
use crate::datastore::{Datastore, StoreError};
use crate::journal::Journal;
use crate::metrics::{Gauges, Metrics};
use crate::model::{Card, Model};
use crate::options::Options;
use crate::queue::Queue;
use crate::sessions::Sessions;
use crate::spool::Spool;

/// The state that all requests share.
pub struct App {
    pub models: Vec<Arc<dyn Model>>,
    pub options: Options,
    pub queue: Queue,
    pub spool: Arc<Spool>,
    pub datastore: Option<Arc<Datastore>>,
    pub sessions: Sessions,
    pub metrics: Arc<Metrics>,
    pub journal: Arc<Journal>,
    /// The right to read a volume for a check: one at a time, because each is in memory.
    pub reading: tokio::sync::Semaphore,
    /// The number of open connections.
    pub connections: AtomicUsize,
    /// Whether the server ends after its current work.
    pub stopping: AtomicBool,
    /// The load of the DICOM node, if there is one.
    pub dicom: OnceLock<Box<dyn Fn() -> Value + Send + Sync>>,
}

type Shared = State<Arc<App>>;

impl App {
    /// The model with a name; without a name, the only model.
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Fault> {
        let known = || {
            let names: Vec<&str> = self.models.iter().map(|model| model.card().name.as_str()).collect();
            names.join(", ")
        };
        match (name, &self.models[..]) {
            (None, [one]) => Ok(one.clone()),
            (None, _) => Err(Fault::bad(format!("give the model: /predict/NAME, one of {}", known()))),
            (Some(name), models) => {
                let found = models.iter().find(|model| model.card().name == name);
                found.cloned().ok_or_else(|| Fault::absent(format!("there is no model {name:?}, expected {}", known())))
            }
        }
    }

    /// Runs a datastore operation on a thread that may block on the disk.
    async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Datastore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Fault> {
        let Some(store) = self.datastore.clone() else {
            return Err(Fault::absent(
                "this server has no datastore: start it with --datastore DIR, or send the image",
            ));
        };
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        Ok(done.map_err(|error| Fault::failed(error.to_string()))??)
    }

    fn gauges(&self) -> Gauges {
        let (waiting, running) = self.queue.load();
        Gauges {
            waiting,
            running,
            queue: self.options.queue,
            spool: self.spool.used(),
            sessions: self.sessions.len(),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }
}

/// The table of paths.
pub fn router(app: Arc<App>) -> Router {
    let limit = usize::try_from(app.options.max_request).unwrap_or(usize::MAX).saturating_add(2 << 20);
    let both = |router: Router<Arc<App>>, path: &str, methods: axum::routing::MethodRouter<Arc<App>>| {
        router.route(path, methods.clone()).route(&format!("{path}/"), methods)
    };
    let mut router = Router::new()
        .route("/", get(models))
        .route("/health", get(health))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/models/{model}", get(card))
        .route("/predict/{model}", post(predict::named))
        .route("/infer/{model}", post(monai::infer))
        .route("/activelearning/{strategy}", post(monai::next_sample))
        .route("/model/info/{model}", get(monai::model_info))
        .route("/model/{model}", get(monai::no_weights))
        .route("/train/{model}", post(monai::no_training))
        .route("/auth/token", post(monai::token))
        .route("/auth/token/valid", get(monai::token_valid))
        .route("/session/{id}", get(session::get).delete(session::remove))
        .route("/datastore/image", get(store::image).put(store::add_image).delete(store::remove_image))
        .route("/datastore/image/info", get(store::image_info))
        .route("/datastore/label", get(store::label).put(store::add_label).delete(store::remove_label))
        .route("/datastore/label/info", get(store::label_info));
    router = both(router, "/models", get(models));
    router = both(router, "/predict", post(predict::only));
    router = both(router, "/info", get(monai::info));
    router = both(router, "/auth", get(monai::auth));
    router = both(router, "/logs", get(monai::logs));
    router = both(router, "/train", get(monai::no_training).post(monai::no_training).merge(delete(monai::no_training)));
    router = both(router, "/session", put(session::create));
    router = both(router, "/datastore", get(store::overview).put(store::add_image).merge(delete(store::remove_image)));
    router
        .fallback(no_address)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(limit))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

/// The address of a connection's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// The paths of a connection that is over the maximum number: `/health` is answered, and nothing else.
pub fn busy_router(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/healthz", get(health))
        .fallback(too_busy)
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

async fn too_busy(State(app): Shared) -> Fault {
    let fault = Fault::many_connections(app.options.connections);
    app.metrics.refused(fault.refused.unwrap_or_default());
    fault
}

/// A JSON answer.
fn as_json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn no_address() -> Fault {
    Fault::absent("there is nothing at this address; GET / lists the models, docs/serve.md all addresses")
}

async fn no_method() -> Fault {
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not support the method")
}

async fn health(State(app): Shared) -> Response {
    let stopping = app.stopping.load(Ordering::Relaxed);
    let (waiting, running) = app.queue.load();
    let word = if stopping { "stopping" } else { "ok" };
    let status = if stopping { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let mut found = json!({"status": word, "models": app.models.len(), "waiting": waiting, "running": running});
    if let Some(dicom) = app.dicom.get() {
        found["dicom"] = dicom();
    }
    (status, as_json(&found)).into_response()
}

async fn metrics(State(app): Shared) -> Response {
    let text = app.metrics.text(app.gauges());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// The description of a model in the list of models.
fn described(card: &Card) -> Value {
    let labels: serde_json::Map<String, Value> =
        card.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "name": card.name, "description": card.description, "type": card.kind.word(), "dimension": card.dimension,
        "labels": labels, "channels": card.channels, "checksum": card.checksum,
    })
}

async fn models(State(app): Shared) -> Response {
    let models: Vec<Value> = app.models.iter().map(|model| described(model.card())).collect();
    as_json(&json!({"name": "hearth", "version": env!("CARGO_PKG_VERSION"), "models": models}))
}

async fn card(State(app): Shared, axum::extract::Path(name): axum::extract::Path<String>) -> Result<Response, Fault> {
    Ok(as_json(&described(app.model(Some(&name))?.card())))
}
