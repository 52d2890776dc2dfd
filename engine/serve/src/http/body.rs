//! Answers made of files: [`PartsBody`].

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

use crate::names::media_type;
use crate::spool::Workspace;

/// The number of bytes that are read at once.
const CHUNK: usize = 128 << 10;

enum Part {
    Text(Bytes),
    File(File),
}

/// Texts and files one after the other. A file is read at the speed of the client, so an answer needs
/// no memory for it; its workspace is kept until the last byte is sent.
pub struct PartsBody {
    parts: VecDeque<Part>,
    /// The number of bytes left.
    left: u64,
    _workspace: Option<Arc<Workspace>>,
}

impl hyper::body::Body for PartsBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        loop {
            match this.parts.front_mut() {
                None => return Poll::Ready(None),
                Some(Part::Text(text)) => {
                    let text = std::mem::take(text);
                    this.parts.pop_front();
                    this.left = this.left.saturating_sub(text.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(text))));
                }
                Some(Part::File(file)) => {
                    let mut space = vec![0; CHUNK];
                    let mut buffer = ReadBuf::new(&mut space);
                    match Pin::new(file).poll_read(context, &mut buffer) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                        Poll::Ready(Ok(())) => {}
                    }
                    let count = buffer.filled().len();
                    if count == 0 {
                        this.parts.pop_front();
                        continue;
                    }
                    space.truncate(count);
                    this.left = this.left.saturating_sub(count as u64);
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from(space)))));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A name for a header: quotes and characters outside ASCII are replaced.
fn quoted(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' { c } else { '_' }).collect()
}

/// A file as an answer, to be saved under this name.
pub async fn file(path: &Path, name: &str, workspace: Option<Arc<Workspace>>) -> io::Result<Response> {
    open_file(File::open(path).await?, name, workspace).await
}

/// An open file as an answer, to be saved under this name.
pub async fn open_file(file: File, name: &str, workspace: Option<Arc<Workspace>>) -> io::Result<Response> {
    let left = file.metadata().await?.len();
    let body = PartsBody { parts: VecDeque::from([Part::File(file)]), left, _workspace: workspace };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{}\"", quoted(name))) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// MONAI Label's answer to `/infer`: `params` as JSON and the file as `image`.
pub async fn multipart(params: &str, path: &Path, name: &str, workspace: Arc<Workspace>) -> io::Result<Response> {
    let file = File::open(path).await?;
    let length = file.metadata().await?.len();
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let boundary: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"params\"\r\nContent-Type: application/json\r\n\r\n\
         {params}\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"image\"; filename=\"{}\"\r\n\
         Content-Type: {}\r\n\r\n",
        quoted(name),
        media_type(name)
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    let left = length + (head.len() + tail.len()) as u64;
    let parts = VecDeque::from([Part::Text(head.into()), Part::File(file), Part::Text(tail.into())]);
    let mut response = Response::new(Body::new(PartsBody { parts, left, _workspace: Some(workspace) }));
    if let Ok(value) = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}")) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    Ok(response)
}
