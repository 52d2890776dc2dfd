//! Answers that are errors: [`Fault`].

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::datastore::StoreError;
use crate::model::Refusal;
use crate::queue::Busy;
use crate::spool::SpoolFull;
use crate::unpack::UnpackError;

/// An answer that is an error, as `{"detail": "what and why"}`.
#[derive(Debug)]
pub struct Fault {
    status: StatusCode,
    detail: String,
    retry: Option<Duration>,
    /// The word in the metrics, if the server refused the request because of its own limits.
    pub refused: Option<&'static str>,
}

impl Fault {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry: None, refused: None }
    }

    /// An invalid request.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A valid request whose image or parameters cannot be used.
    pub fn unusable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub fn absent(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// A failure of the server.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// More connections than the server's maximum.
    pub fn many_connections(most: usize) -> Self {
        let detail = format!("{most} connections are open, which is the maximum");
        Self::later(StatusCode::SERVICE_UNAVAILABLE, detail, Duration::from_secs(10), "connections")
    }

    fn later(status: StatusCode, detail: String, after: Duration, refused: &'static str) -> Self {
        Self { status, detail, retry: Some(after), refused: Some(refused) }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::failed(format!("a temporary file cannot be used: {error}"))
    }
}

impl From<SpoolFull> for Fault {
    fn from(_: SpoolFull) -> Self {
        let detail = "no space for temporary files is left; it is freed when other requests are done".to_owned();
        Self::later(StatusCode::SERVICE_UNAVAILABLE, detail, Duration::from_secs(10), "spool")
    }
}

impl From<Busy> for Fault {
    fn from(busy: Busy) -> Self {
        match busy {
            Busy::Full(after) => {
                let detail = "the maximum number of requests is waiting".to_owned();
                Self::later(StatusCode::TOO_MANY_REQUESTS, detail, after, "queue")
            }
            Busy::Stopping => {
                let (status, detail) = (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping".to_owned());
                Self::later(status, detail, Duration::from_secs(10), "stopping")
            }
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Input(why) => Self::unusable(why),
            Refusal::Failed(why) => Self::failed(why),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let said = error.to_string();
        match error {
            StoreError::Name(_) => Self::bad(said),
            StoreError::Absent(_) => Self::absent(said),
            StoreError::Kind(_) => Self::unusable(said),
            StoreError::Link(_) => Self::new(StatusCode::FORBIDDEN, said),
            StoreError::Disk(_) => Self::failed(said),
        }
    }
}

impl From<UnpackError> for Fault {
    fn from(error: UnpackError) -> Self {
        let said = error.to_string();
        match error {
            UnpackError::Damaged(_) => Self::unusable(said),
            UnpackError::TooMuch(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, said),
            UnpackError::SpoolFull => SpoolFull.into(),
            UnpackError::Disk(_) => Self::failed(said),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let text = json!({"detail": self.detail}).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/json")], text).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
